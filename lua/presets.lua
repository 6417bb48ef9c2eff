-- lua/presets.lua
-- Whole precision methods: `precision = presets.nvfp4`. None names single blocks, so each fits a
-- model of any depth; `derive(presets.nvfp4, { rules = { ... } })` adds what a model needs.
-- The same methods for hosts without Lua stand in runtime/recipe/presets.c.

-- FP8 as in arXiv 2209.05433: E4M3 forward, the wider E5M2 for gradients ("hybrid").
local function hybrid_fp8(scale)
  return gemm {
    weight     = e4m3 { scale = scale },
    activation = e4m3 { scale = scale },
    gradient   = e5m2 { scale = scale },
  }
end

return {
  -- Everything in single precision: norms and the residual stream too.
  fp32 = precision { base = fp32 },

  -- Operands of linear layers rounded to TF32, all else in single precision.
  tf32 = precision { base = tf32 },

  -- BF16 over FP32 master weights and gradients (arXiv 1905.12322).
  bf16 = precision { base = bf16 },

  -- FP16 over FP32 master weights, under a loss scale that finds itself (arXiv 1710.03740).
  fp16 = precision { base = fp16, loss_scale = dynamic {} },

  -- DelayedScaling with the HYBRID format in Transformer Engine, and its defaults.
  fp8_delayed = precision {
    rules = {
      rule { "linear", use = hybrid_fp8(delayed { history = 1024, algo = "max", margin = 0 }) },
    },
  },

  -- Float8CurrentScaling with the HYBRID format in Transformer Engine.
  fp8_current = precision { rules = { rule { "linear", use = hybrid_fp8(current {}) } } },

  -- DeepSeek-V3 (arXiv 2412.19437): E4M3 everywhere, 128 elements along the dot product for
  -- activations and gradients, squares for weights; partial sums move to FP32 every 128 products,
  -- and Adam's moments are BF16.
  deepseek_v3 = precision {
    rules = {
      rule { "linear", use = gemm {
        weight     = fp8_block { block = {128, 128} },
        activation = fp8_block,
        gradient   = fp8_block,
        promote    = 128,
      } },
    },
    state = { adam_m = bf16, adam_v = bf16 },
  },

  -- MXFP8 pretraining (arXiv 2506.08027): E4M3 for gradients too, scales rounded up.
  mxfp8 = precision { rules = { rule { "linear", use = mxfp8 } } },

  -- The MXFP4 counterpart of NVFP4 pretraining in arXiv 2509.25149.
  mxfp4 = precision {
    rules = {
      rule { "linear", use = gemm {
        weight     = mxfp4 { block = {32, 32} },
        activation = mxfp4,
        gradient   = mxfp4 { rounding = "stochastic" },
        wgrad      = { hadamard = hadamard { size = 32, signs = "fixed" } },
      } },
    },
  },

  -- NVFP4 pretraining (arXiv 2509.25149) without its exceptions: keep late blocks higher by
  -- rule { "linear", blocks = last_fraction(0.15), use = bf16 }.
  nvfp4 = precision {
    rules = {
      rule { "linear", use = gemm {
        weight     = nvfp4 { block = {16, 16} },
        activation = nvfp4,
        gradient   = nvfp4 { rounding = "stochastic" },
        wgrad      = { hadamard = hadamard { size = 16, signs = "fixed" } },
      } },
    },
  },
}
