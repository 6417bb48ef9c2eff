-- The Transformer on which the NVFP4 paper (arXiv 2509.25149) tries its parts: 20 blocks of
-- grouped-query attention with rotary positions and a squared-ReLU MLP, no biases, untied
-- tables. Fields and names are those of llama.lua; the paper does not print theta and words, so
-- theta is the usual 10000 and the words are those of its 12B model.

-- Output projections are scaled for depth: each block adds to the stream twice.
local function residual_init(size)
  return { normal = 0.02 / math.sqrt(2 * size.num_hidden_layers) }
end

local function attention(nn, size, x)
  local head_dim, theta = size.head_dim, size.rope_theta
  local q_width = size.num_attention_heads * head_dim
  local kv_width = size.num_key_value_heads * head_dim
  local qkv = nn.linear { "self_attn.qkv_proj", x, out = q_width + 2 * kv_width,
    parts = { "q_proj", "k_proj", "v_proj" }, init = { normal = 0.02 } }
  local q, k, v = nn.split { qkv, sizes = { q_width, kv_width, kv_width } }
  local o = nn.attention { "self_attn", nn.rope { q, head_dim = head_dim, theta = theta },
    nn.rope { k, head_dim = head_dim, theta = theta }, v, heads = size.num_attention_heads,
    kv_heads = size.num_key_value_heads, head_dim = head_dim }
  return nn.linear { "self_attn.o_proj", o, out = size.hidden_size, init = residual_init(size) }
end

local function mlp(nn, size, x)
  local h = nn.linear { "mlp.up_proj", x, out = size.intermediate_size,
    init = { normal = 0.02 } }
  return nn.linear { "mlp.down_proj", nn.relu2(h), out = size.hidden_size,
    init = residual_init(size) }
end

local function graph(nn, size)
  local vocab = size.vocab_size or nn.vocab()
  local x = nn.embedding { "embed_tokens", nn.tokens(), rows = vocab, out = size.hidden_size,
    init = { normal = 0.02 } }
  for i = 0, size.num_hidden_layers - 1 do
    x = nn.block(i, function()
      local h = nn.add(x, attention(nn, size, nn.rmsnorm { "input_layernorm", x, eps = 1e-5 }))
      return nn.add(h, mlp(nn, size, nn.rmsnorm { "post_attention_layernorm", h, eps = 1e-5 }))
    end)
  end
  x = nn.rmsnorm { "norm", x, eps = 1e-5 }
  nn.cross_entropy(nn.linear { "lm_head", x, out = vocab, head = true,
    init = { normal = 0.02 } })
end

-- Without a vocab_size the model takes the vocabulary of its data.
return model {
  name = "transformer",
  sizes = {
    ["1.2b"] = {
      hidden_size = 2048, intermediate_size = 6144, num_hidden_layers = 20,
      num_attention_heads = 16, num_key_value_heads = 8, head_dim = 128, rope_theta = 10000.0,
      vocab_size = 131072,
    },
    -- The same 20 blocks, narrow: what a laptop trains.
    ["1.2b_proxy"] = {
      hidden_size = 64, intermediate_size = 192, num_hidden_layers = 20,
      num_attention_heads = 4, num_key_value_heads = 2, head_dim = 16, rope_theta = 10000.0,
    },
  },
  graph = graph,
}
