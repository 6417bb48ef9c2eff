-- recipes/gpt2_msamp.lua
-- BF16 with the optimizer states of MS-AMP's O2 (arXiv 2310.18313): first moments in E4M3 and
-- second moments in FP16, each under a scale a tensor, and masters in FP16 under a scale: 9 bytes
-- a parameter with FP32 gradients where all in FP32 take 16. Its products in FP8 are those of
-- gpt2_fp8; its gradients in FP8 are not a state here.
return derive(require "recipes.gpt2_base", {
  name = "gpt2_msamp",
  precision = {
    base = bf16,
    rules = { rule { "linear", use = bf16 } },
    state = {
      master = fp16 { scale = current {} },
      adam_m = e4m3,
      adam_v = fp16 { scale = current {} },
    },
  },
  allow = { "lost-update" },                       -- of masters with 11 bits: under 2^-12
})
