-- recipes/gpt2_mxfp6.lua
-- MXFP6 (OCP Microscaling 1.0; arXiv 2310.10537 trains language models in it): E2M3 for weights
-- and activations, E3M2, which reaches further down, for gradients.
return derive(require "recipes.gpt2_base", {
  name = "gpt2_mxfp6",
  precision = {
    rules = {
      rule { "linear", use = gemm {
        weight     = mxfp6 { format = e2m3 },
        activation = mxfp6 { format = e2m3 },
        gradient   = mxfp6 { format = e3m2 },
      } },
    },
  },
})
