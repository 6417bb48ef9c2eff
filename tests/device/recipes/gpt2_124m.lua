-- GPT-2 124M as llm.c trains it, in micro-batches of 8 x 1024 tokens: what is timed.
local gpt2 = require "models.gpt2"

return recipe {
  version = 1,
  name    = "gpt2_124m_bf16",
  model   = gpt2 "124m",
  precision = { rules = { rule { "linear", use = bf16 } } },
  train = {
    steps = 20, batch = 8, micro_batch = 8, sequence = 1024,
    optimizer = adamw { betas = {0.9, 0.95}, eps = 1e-8, weight_decay = 0.1 },
    lr = cosine { peak = 6e-4, final = 6e-5, warmup = 0.1 },
    clip = 1.0,
  },
}
