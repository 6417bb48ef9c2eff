-- recipes/gpt2_fp32.lua
-- Everything in single precision: what the other gpt2_* recipes are measured against.
return derive(require "recipes.gpt2_base", {
  name = "gpt2_fp32",
  precision = { base = fp32, rules = { rule { "linear", use = fp32 } } },
})
