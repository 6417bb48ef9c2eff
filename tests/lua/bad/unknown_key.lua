-- refused: unknown_key.lua:5: no field 'interval'; recipe has version, name, description, model, proxy, precision, phases, train, data or allow
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  interval = 4,
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
