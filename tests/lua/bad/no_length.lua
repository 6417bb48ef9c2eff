-- refused: no_length.lua:3: train: the run has no length; give steps = 1000, or tokens = 1e9
local gpt2 = require "models.gpt2"
return recipe { model = gpt2 "tiny", train = { batch = 2, sequence = 16, lr = constant { peak = 1e-3 } } }
