-- The same in FP8 under blocks of 128, as recipes/fp8_12b.lua.
return derive(require "block_12b", {
  name = "block_12b_fp8",
  precision = { rules = { rule { "linear", use = gemm {
    weight     = fp8_block { block = {128, 128} },
    activation = fp8_block,
    gradient   = fp8_block,
  } } } },
})
