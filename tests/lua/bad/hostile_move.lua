-- refused: hostile_move.lua:2: this call alone would take more than the 20 million steps that the recipe has; give it less text or fewer entries
table.move({ 1 }, 1, 1 << 40, 2)
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
