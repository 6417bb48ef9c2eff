-- recipes/gpt2_nvfp4_plain.lua
-- NVFP4 without all that its paper adds (arXiv 2509.25149): nearest rounding, no rotation,
-- weights in blocks of 1x16, and no block kept higher.
return derive(require "recipes.gpt2_base", {
  name = "gpt2_nvfp4_plain",
  precision = { rules = { rule { "linear", use = nvfp4 } } },
  allow = { "all-fp4" },                           -- that is what it shows
})
