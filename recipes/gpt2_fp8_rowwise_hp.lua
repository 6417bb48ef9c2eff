-- recipes/gpt2_fp8_rowwise_hp.lua
-- Row-wise FP8 with the weight gradient in high precision, and dgrad's weight under one scale a
-- tensor (the "rowwise_with_gw_hp" recipe of torchao's float8 training).
local rowwise = e4m3 { block = "row", scale_format = "pow2" }

return derive(require "recipes.gpt2_base", {
  name = "gpt2_fp8_rowwise_hp",
  precision = {
    rules = {
      rule { "linear", use = rowwise },
      rule { "linear", use = gemm { dgrad = { w = e4m3 { scale_format = "pow2" } } } },
      rule { "linear", gemms = {"wgrad"}, use = bf16 },
    },
  },
})
