-- refused: no_train.lua:3: train.batch: is missing; give sequences an optimizer step: batch = 16
local gpt2 = require "models.gpt2"
return recipe { model = gpt2 "tiny" }
