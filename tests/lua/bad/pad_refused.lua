-- refused: pad_refused.lua:5: h.0.attn.c_attn.wgrad.dy.pad: 9 tokens are no multiple of 16; take pad = "zero" or pad = "bf16", or tokens that are a multiple of 16
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = nvfp4 { pad = "error" } } } },
  train = { steps = 4, batch = 1, sequence = 9, lr = constant { peak = 1e-3, warmup = 1 } },
}
