-- GPT-2 (Radford et al. 2019), with the names and the stored layout of Hugging Face's gpt2
-- checkpoints: Conv1D weights are [in, out], query, key and value are one projection, and the
-- head is the token table. Initial values are the published ones.

local function attention(nn, size, x)
  local width = size.n_embd
  local residual = { normal = 0.02 / math.sqrt(2 * size.n_layer) }
  local qkv = nn.linear { "attn.c_attn", x, out = 3 * width, bias = true, layout = "conv1d",
    init = { normal = 0.02 } }
  local q, k, v = nn.split { qkv, sizes = { width, width, width } }
  local o = nn.attention { "attn", q, k, v, heads = size.n_head }
  return nn.linear { "attn.c_proj", o, out = width, bias = true, layout = "conv1d",
    init = residual }
end

local function mlp(nn, size, x)
  local width = size.n_embd
  local residual = { normal = 0.02 / math.sqrt(2 * size.n_layer) }
  local h = nn.linear { "mlp.c_fc", x, out = 4 * width, bias = true, layout = "conv1d",
    init = { normal = 0.02 } }
  return nn.linear { "mlp.c_proj", nn.gelu(h), out = width, bias = true, layout = "conv1d",
    init = residual }
end

local function graph(nn, size)
  local vocab = size.vocab_size or nn.vocab()
  local x = nn.add(
    nn.embedding { "wte", nn.tokens(), rows = vocab, out = size.n_embd,
      init = { normal = 0.02 } },
    nn.embedding { "wpe", nn.positions(), rows = size.n_positions, out = size.n_embd,
      init = { normal = 0.01 } })
  for i = 0, size.n_layer - 1 do
    x = nn.block(i, function()
      local h = nn.add(x, attention(nn, size, nn.layernorm { "ln_1", x, bias = true }))
      return nn.add(h, mlp(nn, size, nn.layernorm { "ln_2", h, bias = true }))
    end)
  end
  x = nn.layernorm { "ln_f", x, bias = true }
  nn.cross_entropy(nn.linear { "lm_head", x, tied = "wte.weight", head = true })
end

-- Without a vocab_size the model takes the vocabulary of its data.
return model {
  name = "gpt2",
  root = "h",
  prefix = "transformer.",
  sizes = {
    tiny = { n_layer = 2, n_embd = 32, n_head = 4, n_positions = 64 },
    base = { n_layer = 4, n_embd = 128, n_head = 4, n_positions = 128 },
    ["124m"] = { n_layer = 12, n_embd = 768, n_head = 12, n_positions = 1024,
      vocab_size = 50257 },
    ["355m"] = { n_layer = 24, n_embd = 1024, n_head = 16, n_positions = 1024,
      vocab_size = 50257 },
    ["774m"] = { n_layer = 36, n_embd = 1280, n_head = 20, n_positions = 1024,
      vocab_size = 50257 },
    ["1558m"] = { n_layer = 48, n_embd = 1600, n_head = 25, n_positions = 1024,
      vocab_size = 50257 },
  },
  graph = graph,
}
