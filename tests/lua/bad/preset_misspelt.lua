-- refused: preset_misspelt.lua:5: unknown name 'presets.nvpf4'; did you mean 'presets.nvfp4'?
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = presets.nvpf4,
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
