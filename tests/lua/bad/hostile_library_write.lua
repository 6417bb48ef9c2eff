-- refused: hostile_library_write.lua:2: cannot set 'string.rep': libraries are read-only; write `local rep = ...`
string.rep = nil
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
