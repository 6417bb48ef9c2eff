-- refused: output_in_fp8.lua:5: precision.rules[1].use.output: no format 'e4m3' here; take fp32, bf16 or fp16
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = gemm { output = e4m3 } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
