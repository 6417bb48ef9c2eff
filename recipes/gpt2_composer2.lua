-- recipes/gpt2_composer2.lua
-- A forward in row-scaled NVFP4 under a backward in MXFP8 (Composer 2, arXiv 2603.24477, which
-- does so in its experts only).
local rows = nvfp4 { outer = "row" }

return derive(require "recipes.gpt2_base", {
  name = "gpt2_composer2",
  precision = {
    rules = {
      rule { "linear", use = mxfp8 },
      rule { "linear", gemms = {"fprop"}, use = rows },
    },
  },
  allow = { "all-fp4" },
})
