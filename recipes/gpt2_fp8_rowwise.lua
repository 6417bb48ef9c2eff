-- recipes/gpt2_fp8_rowwise.lua
-- FP8 with one scale a row along the dot product: E4M3 for gradients too, scales rounded to
-- powers of two (the "rowwise" recipe of torchao's float8 training).
local rowwise = e4m3 { block = "row", scale_format = "pow2" }

return derive(require "recipes.gpt2_base", {
  name = "gpt2_fp8_rowwise",
  precision = { rules = { rule { "linear", use = rowwise } } },
})
