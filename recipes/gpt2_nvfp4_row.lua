-- recipes/gpt2_nvfp4_row.lua
-- Row-scaled NVFP4 activations (row_scaled_activation of Transformer Engine's NVFP4 recipe): the
-- second-level scale of fprop's activation is one a row instead of one a tensor, so that no pass
-- over the whole tensor comes before quantizing.
return derive(require "recipes.gpt2_nvfp4", {
  name = "gpt2_nvfp4_row",
  precision = {
    rules = {
      rule { "linear", blocks = range(0, 2), use = gemm { fprop = { x = { outer = "row" } } } },
    },
  },
})
