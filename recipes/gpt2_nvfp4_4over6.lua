-- recipes/gpt2_nvfp4_4over6.lua
-- Four Over Six (arXiv 2512.02010): each block brings its largest element to 6 or to 4, whichever
-- loses less; block scales are bounded by 256, so that both fit. For weights and activations;
-- gradients are rounded stochastically with the 16/17 that keeps it unbiased.
local adaptive = nvfp4 { scale_rule = four_over_six { error = "mae", bound = 256 } }

return derive(require "recipes.gpt2_base", {
  name = "gpt2_nvfp4_4over6",
  precision = {
    rules = {
      rule { "linear", use = gemm {
        weight     = adaptive { block = {16, 16} },
        activation = adaptive,
        gradient   = nvfp4 { rounding = "stochastic", headroom = 16/17 },
      } },
      rule { "linear", blocks = last(1), use = bf16 },
    },
  },
})
