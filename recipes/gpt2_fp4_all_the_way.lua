-- recipes/gpt2_fp4_all_the_way.lua
-- FP4 All the Way (arXiv 2505.19115): NVFP4 in all six operands; gradients and the activation of
-- wgrad are rounded stochastically, the rest to nearest. A last phase keeps the forward product
-- in FP4 and gives the backward ones BF16; where to switch the paper derives from the size of
-- gradients, here it is the last tenth. Not here: Smooth-SwiGLU, and its second warmup.
return derive(require "recipes.gpt2_base", {
  name = "gpt2_fp4_all_the_way",
  precision = {
    rules = {
      rule { "linear", use = nvfp4 },
      rule { "linear", use = gemm {
        gradient = { rounding = "stochastic" },
        wgrad    = { x = { rounding = "stochastic" } },
      } },
    },
  },
  phases = {
    phase { "four_bit" },
    phase { "backward_bf16", from = 0.9, rules = {
      rule { "linear", gemms = {"dgrad", "wgrad"}, use = bf16 },
    } },
  },
  allow = { "all-fp4" },                           -- as its name says
})
