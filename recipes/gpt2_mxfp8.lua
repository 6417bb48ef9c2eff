-- recipes/gpt2_mxfp8.lua
-- MXFP8 pretraining (arXiv 2506.08027): E4M3 in all three products, gradients included, under a
-- power-of-two scale for each 32 elements along the dot product, rounded up.
return derive(require "recipes.gpt2_base", {
  name = "gpt2_mxfp8",
  precision = { rules = { rule { "linear", use = mxfp8 } } },
})
