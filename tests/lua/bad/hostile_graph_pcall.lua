-- refused: hostile_graph_pcall.lua:2: drawing the model did not end within 20 million steps, with 0 blocks drawn; give the model fewer blocks, or look for a loop without an end
local m = model { name = "m", sizes = { s = {} }, graph = function(nn, size) while true do pcall(nn.linear, {}) end end }
return recipe {
  model = m "s",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
