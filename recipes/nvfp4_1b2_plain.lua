-- recipes/nvfp4_1b2_plain.lua
-- NVFP4 without all that its paper adds (arXiv 2509.25149, its "base method"): nearest rounding,
-- no rotation, weights in blocks of 1x16, and no block kept higher.
return derive(require "recipes.nvfp4_1b2", {
  name = "nvfp4_1b2_plain",
  precision = { rules = replace { rule { "linear", use = nvfp4 } } },
  allow = { "all-fp4" },                           -- that is what it shows
})
