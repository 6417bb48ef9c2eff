-- recipes/bf16_1b2.lua
-- What nvfp4_1b2 and nvfp4_1b2_plain are measured against: the same in BF16 (arXiv 2509.25149).
return derive(require "recipes.nvfp4_1b2", {
  name = "bf16_1b2",
  precision = { rules = replace { rule { "linear", use = bf16 } } },
})
