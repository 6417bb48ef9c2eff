-- refused: text_without_quotes.lua:5: unknown name 'stochastic'; it is a text: write "stochastic"
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = e4m3 { rounding = stochastic } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
