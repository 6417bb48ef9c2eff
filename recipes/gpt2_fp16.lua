-- recipes/gpt2_fp16.lua
-- FP16 mixed precision with a static loss scale over FP32 master weights (arXiv 1710.03740).
return derive(require "recipes.gpt2_base", {
  name = "gpt2_fp16",
  precision = {
    base = fp16,
    rules = { rule { "linear", use = fp16 } },
    loss_scale = static(1024),
  },
})
