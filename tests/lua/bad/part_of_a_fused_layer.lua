-- refused: part_of_a_fused_layer.lua:5: precision.rules[1]: '*.q_proj' names only a part of 'layers.7.mixer.qkv_proj', which computes q_proj, k_proj, v_proj in one product; name the whole: '*.qkv_proj'
local nemotron_h = require "models.nemotron_h"
return recipe {
  model = nemotron_h "12b_proxy",
  precision = { rules = { rule { "*.q_proj", use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
