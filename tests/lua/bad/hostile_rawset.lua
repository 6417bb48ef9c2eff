-- refused: hostile_rawset.lua:2: this table is read-only
rawset(string, "rep", 1)
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
