-- recipes/gpt2_mxfp4_hadamard.lua
-- MXFP4 with a deterministic Hadamard rotation in wgrad and rounding to nearest everywhere, as
-- trained natively on MI355X (arXiv 2605.09825): there plain rotations kept the run stable where
-- random signs and stochastic rounding did not. Block sizes of the rotation are not stated; 32
-- is one block.
return derive(require "recipes.gpt2_base", {
  name = "gpt2_mxfp4_hadamard",
  precision = {
    rules = {
      rule { "linear", use = mxfp4 },
      rule { "linear", use = gemm { wgrad = { hadamard = hadamard { size = 32, signs = "none" } } } },
      rule { "linear", blocks = last(1), use = bf16 },
    },
  },
})
