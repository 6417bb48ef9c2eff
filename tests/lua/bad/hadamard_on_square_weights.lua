-- refused: hadamard_on_square_weights.lua:5: h.0.attn.c_attn.fprop.hadamard: the weight has square blocks of 16x16; rotate wgrad only, or give the weight blocks of {1, 16}
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = gemm { weight = nvfp4 { block = {16, 16} }, activation = nvfp4, fprop = { hadamard = hadamard { size = 16 } } } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
