-- recipes/gpt2_mxfp4_floor.lua
-- MXFP4 by the letter of OCP Microscaling 1.0, in all three products: scales rounded down, half
-- of all block maxima saturate. The baseline that the FP4 methods improve on; the last block
-- stays in BF16.
return derive(require "recipes.gpt2_base", {
  name = "gpt2_mxfp4_floor",
  precision = {
    rules = {
      rule { "linear",                   use = mxfp4 { scale_rule = "floor" } },
      rule { "linear", blocks = last(1), use = bf16 },
    },
  },
})
