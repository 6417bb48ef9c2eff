-- refused: delayed_with_blocks.lua:5: precision.rules[1].use.block: a delayed scale is one for the whole tensor; add block = "tensor", or take scale = current {}
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = fp8_block { scale = delayed { history = 16 } } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
