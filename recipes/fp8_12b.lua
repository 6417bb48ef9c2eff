-- recipes/fp8_12b.lua
-- The FP8 baseline of the 12B run in arXiv 2509.25149, which trained Nemotron Nano 2: E4M3
-- everywhere, 128x128 for weights and 1x128 for the rest under FP32 scales; the first block and
-- the last two in BF16.
return derive(require "recipes.nvfp4_12b", {
  name = "fp8_12b",
  precision = {
    rules = replace {
      rule { "linear", use = gemm {
        weight     = fp8_block { block = {128, 128} },
        activation = fp8_block,
        gradient   = fp8_block,
      } },
      rule { "linear", blocks = first(1), use = bf16 },
      rule { "linear", blocks = last(2),  use = bf16 },
    },
  },
  phases = replace { phase { "fp8" } },
})
