-- GPT-2 (Radford et al. 2019), with the names and the stored layout of Hugging Face's gpt2
-- checkpoints: Conv1D weights are [in, out], query, key and value are one projection, and the
-- head is the token table. Fields are those of its config.json. Initial values are the published
-- ones.

-- Normal, and for what is added to the stream scaled for depth: each block adds twice.
local function normal(size)
  return { normal = size.initializer_range }
end

local function residual(size)
  return { normal = size.initializer_range / math.sqrt(2 * size.n_layer) }
end

-- Zeroes some numbers in training; where p is 0 it draws nothing.
local function dropout(nn, name, p, x)
  return p ~= 0 and nn.dropout { name, x, p = p } or x
end

local function layernorm(nn, size, name, x)
  return nn.layernorm { name, x, bias = true, eps = size.layer_norm_epsilon }
end

local function attention(nn, size, x)
  local width = size.n_embd
  local qkv = nn.linear { "attn.c_attn", x, out = 3 * width, bias = true, layout = "conv1d",
    init = normal(size) }
  local q, k, v = nn.split { qkv, sizes = { width, width, width } }
  local o = nn.attention { "attn", q, k, v, heads = size.n_head }
  o = nn.linear { "attn.c_proj", o, out = width, bias = true, layout = "conv1d",
    init = residual(size) }
  return dropout(nn, "attn.resid_dropout", size.resid_pdrop, o)
end

local function mlp(nn, size, x)
  local inner = size.n_inner > 0 and size.n_inner or 4 * size.n_embd
  local h = nn.linear { "mlp.c_fc", x, out = inner, bias = true, layout = "conv1d",
    init = normal(size) }
  h = nn.gelu { h, exact = size.activation_function == "gelu" }
  h = nn.linear { "mlp.c_proj", h, out = size.n_embd, bias = true, layout = "conv1d",
    init = residual(size) }
  return dropout(nn, "mlp.dropout", size.resid_pdrop, h)
end

local function graph(nn, size)
  local vocab = size.vocab_size or nn.vocab()
  local x = nn.add(
    nn.embedding { "wte", nn.tokens(), rows = vocab, out = size.n_embd, init = normal(size) },
    nn.embedding { "wpe", nn.positions(), rows = size.n_positions, out = size.n_embd,
      init = { normal = size.initializer_range / 2 } })
  x = dropout(nn, "drop", size.embd_pdrop, x)
  for i = 0, size.n_layer - 1 do
    x = nn.block(i, function()
      local h = nn.add(x, attention(nn, size, layernorm(nn, size, "ln_1", x)))
      return nn.add(h, mlp(nn, size, layernorm(nn, size, "ln_2", h)))
    end)
  end
  x = layernorm(nn, size, "ln_f", x)
  if size.tie_word_embeddings then
    nn.cross_entropy(nn.linear { "lm_head", x, tied = "wte.weight", head = true })
  else
    nn.cross_entropy(nn.linear { "lm_head", x, out = vocab, head = true, init = normal(size) })
  end
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
  defaults = {
    n_inner = 0, -- 4 * n_embd
    activation_function = "gelu_new", layer_norm_epsilon = 1e-5, initializer_range = 0.02,
    tie_word_embeddings = true, embd_pdrop = 0.0, resid_pdrop = 0.0,
  },
  only = {
    activation_function = { "gelu_new", "gelu_pytorch_tanh", "gelu" },
    attn_pdrop = 0, -- attention never holds its probabilities, so none can be dropped
    scale_attn_weights = true, scale_attn_by_inverse_layer_idx = false,
    reorder_and_upcast_attn = false, add_cross_attention = false,
  },
  graph = graph,
}
