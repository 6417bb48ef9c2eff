-- refused: format_of_another_tool.lua:5: unknown name 'fp8'; FP8 is e4m3 or e5m2, or in blocks fp8_block or mxfp8
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = fp8 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
