-- refused: hostile_graph.lua:2: e: the model has a layer of this name already
local m = model { name = "m", sizes = { s = {} }, graph = function(nn, size) while true do nn.relu2(nn.embedding { "e", nn.tokens(), out = 4 }) end end }
return recipe {
  model = m "s",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
