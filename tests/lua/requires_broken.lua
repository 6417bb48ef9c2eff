-- A fault in a value that another file made.
return recipe { model = require "models.mlp" "tiny",
  precision = { rules = { rule { "linear", use = require "sub.broken" } } } }
