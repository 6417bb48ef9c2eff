-- The smallest model that learns: a token table, residual blocks of two linear layers, a head.
-- It sees one token at a time, so its loss ends at the entropy of pairs of tokens.

local function graph(nn, size)
  local vocab = nn.vocab()
  local residual = { normal = 0.02 / math.sqrt(size.layers) }
  local x = nn.embedding { "embed_tokens", nn.tokens(), rows = vocab, out = size.width,
    init = { normal = 0.02 } }
  for i = 0, size.layers - 1 do
    x = nn.block(i, function()
      local h = nn.rmsnorm { "norm", x }
      h = nn.linear { "up_proj", h, out = size.hidden, init = { normal = 0.02 } }
      h = nn.linear { "down_proj", nn.silu(h), out = size.width, init = residual }
      return nn.add(x, h)
    end)
  end
  x = nn.rmsnorm { "norm", x }
  nn.cross_entropy(nn.linear { "lm_head", x, out = vocab, head = true,
    init = { normal = 0.02 } })
end

return model {
  name = "mlp",
  sizes = {
    tiny = { layers = 2, width = 32, hidden = 64 },
    small = { layers = 4, width = 128, hidden = 512 },
  },
  graph = graph,
}
