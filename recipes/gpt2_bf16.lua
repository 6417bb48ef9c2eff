-- recipes/gpt2_bf16.lua
-- BF16 products and activations over FP32 master weights and gradients (arXiv 1905.12322).
return derive(require "recipes.gpt2_base", {
  name = "gpt2_bf16",
  precision = { base = bf16, rules = { rule { "linear", use = bf16 } } },
})
