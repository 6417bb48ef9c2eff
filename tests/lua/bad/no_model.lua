-- refused: no_model.lua:2: model: missing; name one: model = require "models.gpt2" "124m"
return recipe { train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3 } } }
