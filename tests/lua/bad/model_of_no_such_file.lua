-- refused: model_of_no_such_file.lua:4: require: there is no module 'models.gtp2'; looked for models/gtp2.lua in , tests/lua/, 
local gpt2 = require "models.gpt2"
return recipe {
  model = (require "models.gtp2") "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
