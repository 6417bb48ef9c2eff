-- recipes/gpt2_coat.lua
-- BF16 with both moments of AdamW in E4M3, 128 of a row under one scale, over FP32 masters: the
-- optimizer states of COAT (arXiv 2410.19313), 10 bytes a parameter where FP32 moments take 16.
-- COAT also expands the range of each group by a power, which is left out here: the smallest
-- squares of a group are 0.
return derive(require "recipes.gpt2_base", {
  name = "gpt2_coat",
  precision = {
    base = bf16,
    rules = { rule { "linear", use = bf16 } },
    state = { adam_m = e4m3 { block = {1, 128} }, adam_v = e4m3 { block = {1, 128} } },
  },
  allow = { "lost-update" },                       -- the squares just spoken of
})
