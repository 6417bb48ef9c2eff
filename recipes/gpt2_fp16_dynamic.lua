-- recipes/gpt2_fp16_dynamic.lua
-- FP16 mixed precision with a loss scale that finds itself (arXiv 1710.03740; the scaler and its
-- defaults are PyTorch's GradScaler). A step whose gradients overflow is skipped.
return derive(require "recipes.gpt2_base", {
  name = "gpt2_fp16_dynamic",
  precision = {
    base = fp16,
    rules = { rule { "linear", use = fp16 } },
    loss_scale = dynamic { init = 65536, growth = 2, backoff = 0.5, interval = 2000 },
  },
})
