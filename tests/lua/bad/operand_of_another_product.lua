-- refused: operand_of_another_product.lua:5: precision.rules[1].use.fprop: no field 'dy'; fprop has x, w, hadamard, output, accumulate or promote
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = gemm { fprop = { dy = bf16 } } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
