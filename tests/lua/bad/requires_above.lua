-- refused: requires_above.lua:2: require: no module can have the name '../secret'; names are words with dots between: models.gpt2
local x = require "../secret"
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
