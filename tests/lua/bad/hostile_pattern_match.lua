-- refused: hostile_pattern_match.lua:2: this call alone would take more than the 20 million steps that the recipe has; give it less text or fewer entries
for i = 1, 1e9 do (("x"):rep(1000)):match(".-.-.-.-y") end
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
