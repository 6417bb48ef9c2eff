-- refused: norm_in_tf32.lua:5: precision.ops.norm: no format 'tf32' here; take fp32, bf16, fp16, e4m3 or e5m2
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { ops = { norm = tf32 } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
