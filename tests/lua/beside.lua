-- A recipe that requires a file beside it and one in a folder below.
local steps = require "part"
local batch = require "sub.part"
return recipe { model = require "models.mlp" "tiny", train = { steps = steps, batch = batch } }
