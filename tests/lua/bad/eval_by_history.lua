-- refused: eval_by_history.lua:6: train.eval.use: delayed scaling has no history in an evaluation; give scale = current {}
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 },
    eval = { use = e4m3 { scale = delayed {} } } },
}
