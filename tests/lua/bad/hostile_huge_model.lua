-- refused: models/gpt2.lua:30: drawing the model did not end within 20 million steps, with 2278 blocks drawn; give the model fewer blocks, or look for a loop without an end
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 { n_layer = 1e9, n_embd = 8, n_head = 2, n_positions = 16 },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
