-- refused: sets_a_global.lua:2: cannot set 'speed': no globals here; write `local speed = ...`
speed = 3
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
