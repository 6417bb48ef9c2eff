-- Nemotron-H (arXiv 2504.03624): Mamba-2, attention and squared-ReLU blocks by a pattern of
-- `M`, `*` and `-`, one mixer a block, no positions. Names are those of Hugging Face's
-- nemotron_h checkpoints, except that query, key and value are one linear layer of three parts.
-- Initial values are those of mamba_ssm and Megatron-LM.

-- Output projections are scaled for depth: each block adds to the stream once.
local function residual_init(size)
  return { normal = 0.02 / math.sqrt(#size.pattern) }
end

-- Mamba-2: one projection gives gate, input, B, C and step size; the middle three pass through a
-- short convolution before the scan.
local function mamba(nn, size, x)
  local inner = size.mamba_heads * size.mamba_head_dim
  local bc = size.groups * size.state
  local p = nn.linear { "mixer.in_proj", x, out = 2 * inner + 2 * bc + size.mamba_heads,
    init = { normal = 0.02 } }
  local z, xbc, dt = nn.split { p, sizes = { inner, inner + 2 * bc, size.mamba_heads } }
  local u = nn.silu(nn.conv1d { "mixer.conv1d", xbc, kernel = size.conv_kernel, bias = true })
  local xs, b, c = nn.split { u, sizes = { inner, bc, bc } }
  local y = nn.ssm_scan { "mixer", xs, b, c, dt, heads = size.mamba_heads,
    head_dim = size.mamba_head_dim, groups = size.groups, state = size.state }
  local o = nn.gated_rmsnorm { "mixer.norm", y, z, groups = size.groups, eps = 1e-5 }
  return nn.linear { "mixer.out_proj", o, out = size.hidden_size, init = residual_init(size) }
end

-- Grouped-query attention without positions.
local function attention(nn, size, x)
  local q_width = size.heads * size.head_dim
  local kv_width = size.kv_heads * size.head_dim
  local qkv = nn.linear { "mixer.qkv_proj", x, out = q_width + 2 * kv_width,
    parts = { "q_proj", "k_proj", "v_proj" }, init = { normal = 0.02 } }
  local q, k, v = nn.split { qkv, sizes = { q_width, kv_width, kv_width } }
  local o = nn.attention { "mixer", q, k, v, heads = size.heads, kv_heads = size.kv_heads,
    head_dim = size.head_dim }
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
  for i = 0, #size.pattern - 1 do
    local letter = size.pattern:sub(i + 1, i + 1)
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
  prefix = "backbone.",
  sizes = {
    -- Nemotron-Nano-12B-v2-Base, the 12B of the NVFP4 paper: 12,310,001,152 parameters.
    ["12b"] = {
      pattern = pattern_12b, hidden_size = 5120, intermediate_size = 20480,
      heads = 40, kv_heads = 8, head_dim = 128,
      mamba_heads = 128, mamba_head_dim = 80, state = 128, groups = 8, conv_kernel = 4,
      vocab_size = 131072,
    },
    ["8b"] = {
      pattern = pattern_8b, hidden_size = 4096, intermediate_size = 21504,
      heads = 32, kv_heads = 8, head_dim = 128,
      mamba_heads = 128, mamba_head_dim = 64, state = 128, groups = 8, conv_kernel = 4,
      vocab_size = 131072,
    },
    -- The same 62 blocks, narrow: what a laptop trains.
    ["12b_proxy"] = {
      pattern = pattern_12b, hidden_size = 64, intermediate_size = 256,
      heads = 4, kv_heads = 2, head_dim = 16,
      mamba_heads = 8, mamba_head_dim = 16, state = 16, groups = 2, conv_kernel = 4,
    },
    -- The same 52 blocks, narrow.
    ["8b_proxy"] = {
      pattern = pattern_8b, hidden_size = 64, intermediate_size = 256,
      heads = 4, kv_heads = 2, head_dim = 16,
      mamba_heads = 8, mamba_head_dim = 16, state = 16, groups = 2, conv_kernel = 4,
    },
  },
  graph = graph,
}
