-- recipes/gpt2_nvfp4_te.lua
-- NVFP4BlockScaling of Transformer Engine as it comes: the paper's recipe (arXiv 2509.25149)
-- without its exceptions, which there are flags of the training loop.
return derive(require "recipes.gpt2_base", {
  name = "gpt2_nvfp4_te",
  precision = presets.nvfp4,
  allow = { "all-fp4" },                           -- as it comes: no block is kept higher
})
