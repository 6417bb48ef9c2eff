-- recipes/gpt2_bf16_states.lua
-- BF16 with Adam's two moments in BF16 over FP32 master weights, as in DeepSeek-V3 (arXiv
-- 2412.19437): 12 bytes a parameter where FP32 moments take 16. Megatron-LM calls it the
-- precision-aware optimizer.
return derive(require "recipes.gpt2_base", {
  name = "gpt2_bf16_states",
  precision = {
    base = bf16,
    rules = { rule { "linear", use = bf16 } },
    state = { adam_m = bf16, adam_v = bf16 },
  },
})
