-- refused: wrong_type_table_for_name.lua:5: name: cannot be a table; give a text
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  name = {},
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
