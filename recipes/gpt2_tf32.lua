-- recipes/gpt2_tf32.lua
-- TF32: operands of every product lose 13 mantissa bits on the way in, everything else is
-- single precision (NVIDIA A100 white paper, 2020; PyTorch's allow_tf32).
return derive(require "recipes.gpt2_base", {
  name = "gpt2_tf32",
  precision = presets.tf32,
})
