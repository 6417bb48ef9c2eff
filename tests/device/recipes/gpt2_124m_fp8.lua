-- The same in FP8 with delayed scales.
local before = delayed { history = 1024, algo = "max", margin = 0 }

return derive(require "gpt2_124m", {
  name = "gpt2_124m_fp8",
  precision = { rules = { rule { "linear", use = gemm {
    weight     = e4m3 { scale = before },
    activation = e4m3 { scale = before },
    gradient   = e5m2 { scale = before },
  } } } },
})
