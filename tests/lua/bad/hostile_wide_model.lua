-- refused: models/gpt2.lua:48: nn.embedding.out: cannot be 1099511627776; give a whole number from 1 to 2147483647
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 { n_layer = 1, n_embd = 1 << 40, n_head = 2, n_positions = 16 },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
