-- recipes/gpt2_base.lua
-- A small GPT-2 that the gpt2_* recipes share: they change the precision and nothing else, so
-- their losses can be compared. Settings in the manner of nanoGPT's character-level example.
local gpt2 = require "models.gpt2"

return recipe {
  version = 1,
  name    = "gpt2_base",
  model   = gpt2 "base",                           -- 4 blocks, 128 wide, 4 heads, 128 positions

  train = {
    steps = 1000, batch = 16, sequence = 128,
    optimizer = adamw { betas = {0.9, 0.95}, eps = 1e-8, weight_decay = 0.1 },
    lr = cosine { peak = 4e-3, final = 4e-4, warmup = 0.1 },
    clip = 1.0,
    seed = 1234,
    eval = { every = 100 },
  },
}
