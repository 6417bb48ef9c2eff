-- refused: requires_a_library.lua:2: require: there is no module 'io'; looked for io.lua in 
local io = require "io"
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
