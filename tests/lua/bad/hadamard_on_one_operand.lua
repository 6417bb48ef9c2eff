-- refused: hadamard_on_one_operand.lua:5: h.0.attn.c_attn.wgrad.hadamard: the two operands are not rotated alike; set it on both: wgrad = { hadamard = hadamard{...} }
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = gemm { wgrad = { x = nvfp4 { hadamard = hadamard { size = 16 } }, dy = nvfp4 } } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
