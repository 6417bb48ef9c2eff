-- Nemotron-H (arXiv 2504.03624): Mamba-2, attention and squared-ReLU blocks by a pattern of
-- `M`, `*` and `-`, one mixer a block, no positions. Names are those of Hugging Face's
-- nemotron_h checkpoints, except that query, key and value are one linear layer of three parts.
-- Initial values are those of mamba_ssm and Megatron-LM.

-- Output projections are scaled for depth: each block adds to the stream once.
local function residual_init(size)
  return { normal = 0.02 / math.sqrt(#size.hybrid_override_pattern) }
end

-- Mamba-2: one projection gives gate, input, B, C and step size; the middle three pass through a
-- short convolution before the scan.
local function mamba(nn, size, x)
  local inner = size.mamba_num_heads * size.mamba_head_dim
  local bc = size.n_groups * size.ssm_state_size
  local p = nn.linear { "mixer.in_proj", x, out = 2 * inner + 2 * bc + size.mamba_num_heads,
    init = { normal = 0.02 } }
  local z, xbc, dt = nn.split { p, sizes = { inner, inner + 2 * bc, size.mamba_num_heads } }
  local u = nn.silu(nn.conv1d { "mixer.conv1d", xbc, kernel = size.conv_kernel, bias = true })
  local xs, b, c = nn.split { u, sizes = { inner, bc, bc } }
  local y = nn.ssm_scan { "mixer", xs, b, c, dt, heads = size.mamba_num_heads,
    head_dim = size.mamba_head_dim, groups = size.n_groups, state = size.ssm_state_size }
  local o = nn.gated_rmsnorm { "mixer.norm", y, z, groups = size.n_groups, eps = 1e-5 }
  return nn.linear { "mixer.out_proj", o, out = size.hidden_size, init = residual_init(size) }
end

-- Grouped-query attention without positions.
local function attention(nn, size, x)
  local q_width = size.num_attention_heads * size.head_dim
  local kv_width = size.num_key_value_heads * size.head_dim
  local qkv = nn.linear { "mixer.qkv_proj", x, out = q_width + 2 * kv_width,
    parts = { "q_proj", "k_proj", "v_proj" }, init = { normal = 0.02 } }
  local q, k, v = nn.split { qkv, sizes = { q_width, kv_width, kv_width } }
  local o = nn.attention { "mixer", q, k, v, heads = size.num_attention_heads,
    kv_heads = size.num_key_value_heads, head_dim = size.head_dim }
  return nn.linear { "mixer.o_proj", o, out = size.hidden_size, init = residual_init(size) }
end

local function mlp(nn, size, x)
  local h = nn.linear { "mixer.up_proj", x, out = size.intermediate_size,
    init = { normal = 0.02 } }
  return nn.linear { "mixer.down_proj", nn.relu2(h), out = size.hidden_size,
    init = residual_init(size) }
end

local mixers = { M = mamba, ["*"] = attention, ["-"] = mlp }

local function graph(nn, size)
  local vocab = size.vocab_size or nn.vocab()
  local x = nn.embedding { "embeddings", nn.tokens(), rows = vocab, out = size.hidden_size,
    init = { normal = 0.02 } }
  for i = 0, #size.hybrid_override_pattern - 1 do
    local letter = size.hybrid_override_pattern:sub(i + 1, i + 1)
    local mixer = mixers[letter]
    if not mixer then
      error("nemotron_h: the pattern may hold M, * and -, not '" .. letter .. "'", 0)
    end
    x = nn.block(i, function()
      return nn.add(x, mixer(nn, size, nn.rmsnorm { "norm", x, eps = 1e-5 }))
    end)
  end
  x = nn.rmsnorm { "norm_f", x, eps = 1e-5 }
  nn.cross_entropy(nn.linear { "lm_head", x, out = vocab, head = true,
    init = { normal = 0.02 } })
end

local pattern_12b = "M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M-"
local pattern_8b = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"

-- Without a vocab_size the model takes the vocabulary of its data.
return model {
  name = "nemotron_h",
  sizes = {
    -- Nemotron-Nano-12B-v2-Base, the 12B of the NVFP4 paper: 12,310,001,152 parameters.
    ["12b"] = {
      hybrid_override_pattern = pattern_12b, hidden_size = 5120, intermediate_size = 20480,
      num_attention_heads = 40, num_key_value_heads = 8, head_dim = 128,
      mamba_num_heads = 128, mamba_head_dim = 80, ssm_state_size = 128, n_groups = 8,
      conv_kernel = 4, vocab_size = 131072,
    },
    ["8b"] = {
      hybrid_override_pattern = pattern_8b, hidden_size = 4096, intermediate_size = 21504,
      num_attention_heads = 32, num_key_value_heads = 8, head_dim = 128,
      mamba_num_heads = 128, mamba_head_dim = 64, ssm_state_size = 128, n_groups = 8,
      conv_kernel = 4, vocab_size = 131072,
    },
    -- The same 62 blocks, narrow: what a laptop trains.
    ["12b_proxy"] = {
      hybrid_override_pattern = pattern_12b, hidden_size = 64, intermediate_size = 256,
      num_attention_heads = 4, num_key_value_heads = 2, head_dim = 16,
      mamba_num_heads = 8, mamba_head_dim = 16, ssm_state_size = 16, n_groups = 2,
      conv_kernel = 4,
    },
    -- The same 52 blocks, narrow.
    ["8b_proxy"] = {
      hybrid_override_pattern = pattern_8b, hidden_size = 64, intermediate_size = 256,
      num_attention_heads = 4, num_key_value_heads = 2, head_dim = 16,
      mamba_num_heads = 8, mamba_head_dim = 16, ssm_state_size = 16, n_groups = 2,
      conv_kernel = 4,
    },
  },
  graph = graph,
}
