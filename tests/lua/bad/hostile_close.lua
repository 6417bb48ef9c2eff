-- refused: hostile_close.lua:2: the recipe did not end within 20 million steps; it only declares: look for a loop without an end
do local t <close> = setmetatable({}, { __close = function() while true do end end }) end
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
