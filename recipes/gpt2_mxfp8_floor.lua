-- recipes/gpt2_mxfp8_floor.lua
-- MXFP8 by the letter of OCP Microscaling 1.0: the scale is the exponent of the block's largest
-- element, rounded down, so that a quarter of all block maxima saturate. arXiv 2506.08027 found
-- that this can diverge where rounding up does not: see gpt2_mxfp8.
return derive(require "recipes.gpt2_base", {
  name = "gpt2_mxfp8_floor",
  precision = { rules = { rule { "linear", use = mxfp8 { scale_rule = "floor" } } } },
})
