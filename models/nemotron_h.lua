-- Nemotron-H (arXiv 2504.03624): Mamba-2, attention, squared-ReLU and expert blocks by a pattern
-- of `M`, `*`, `-` and `E`, one mixer a block, no positions. Names are those of Hugging Face's
-- nemotron_h checkpoints, except that query, key and value are one linear layer of three parts.
-- Initial values are those of mamba_ssm and Megatron-LM.

local function normal(size)
  return { normal = size.initializer_range }
end

-- Output projections are scaled for depth: each block adds to the stream once.
local function residual(size)
  local depth = size.rescale_prenorm_residual and #size.hybrid_override_pattern or 1
  return { normal = size.initializer_range / math.sqrt(depth) }
end

-- Mamba-2: one projection gives gate, input, B, C and step size; the middle three pass through a
-- short convolution before the scan.
local function mamba(nn, size, x)
  local inner = size.mamba_num_heads * size.mamba_head_dim
  local bc = size.n_groups * size.ssm_state_size
  local p = nn.linear { "mixer.in_proj", x, out = 2 * inner + 2 * bc + size.mamba_num_heads,
    init = normal(size) }
  local z, xbc, dt = nn.split { p, sizes = { inner, inner + 2 * bc, size.mamba_num_heads } }
  local u = nn.silu(nn.conv1d { "mixer.conv1d", xbc, kernel = size.conv_kernel,
    bias = size.use_conv_bias })
  local xs, b, c = nn.split { u, sizes = { inner, bc, bc } }
  local y = nn.ssm_scan { "mixer", xs, b, c, dt, heads = size.mamba_num_heads,
    head_dim = size.mamba_head_dim, groups = size.n_groups, state = size.ssm_state_size }
  local o = nn.gated_rmsnorm { "mixer.norm", y, z, groups = size.n_groups,
    eps = size.layer_norm_epsilon }
  return nn.linear { "mixer.out_proj", o, out = size.hidden_size, init = residual(size) }
end

-- Grouped-query attention without positions.
local function attention(nn, size, x)
  local q_width = size.num_attention_heads * size.head_dim
  local kv_width = size.num_key_value_heads * size.head_dim
  local qkv = nn.linear { "mixer.qkv_proj", x, out = q_width + 2 * kv_width,
    parts = { "q_proj", "k_proj", "v_proj" }, init = normal(size) }
  local q, k, v = nn.split { qkv, sizes = { q_width, kv_width, kv_width } }
  local o = nn.attention { "mixer", q, k, v, heads = size.num_attention_heads,
    kv_heads = size.num_key_value_heads, head_dim = size.head_dim }
  return nn.linear { "mixer.o_proj", o, out = size.hidden_size, init = residual(size) }
end

local function mlp(nn, size, x)
  local h = nn.linear { "mixer.up_proj", x, out = size.intermediate_size,
    init = normal(size) }
  return nn.linear { "mixer.down_proj", nn.relu2(h), out = size.hidden_size,
    init = residual(size) }
end

-- Routed experts, chosen by sigmoid scores and a bias that evens their load, and a shared one.
local function experts(nn, size, x)
  local routed = nn.moe { "mixer", x, experts = size.n_routed_experts,
    top_k = size.num_experts_per_tok, hidden = size.moe_intermediate_size,
    activation = "relu2", score = "sigmoid", normalize = size.norm_topk_prob,
    scale = size.routed_scaling_factor, groups = size.n_group, top_groups = size.topk_group,
    bias = true, balance = size.bias_update_speed, align = size.expert_alignment,
    init = normal(size), down_init = residual(size) }
  if size.n_shared_experts == 0 then
    return routed
  end
  local h = nn.linear { "mixer.shared_experts.up_proj", x,
    out = size.moe_shared_expert_intermediate_size, init = normal(size) }
  return nn.add(routed, nn.linear { "mixer.shared_experts.down_proj", nn.relu2(h),
    out = size.hidden_size, init = residual(size) })
end

local mixers = { M = mamba, ["*"] = attention, ["-"] = mlp, E = experts }

local function graph(nn, size)
  local vocab = size.vocab_size or nn.vocab()
  local x = nn.embedding { "embeddings", nn.tokens(), rows = vocab, out = size.hidden_size,
    init = normal(size) }
  for i = 0, #size.hybrid_override_pattern - 1 do
    local letter = size.hybrid_override_pattern:sub(i + 1, i + 1)
    local mixer = mixers[letter]
    if not mixer then
      error("nemotron_h: the pattern may hold M, *, - and E, not '" .. letter .. "'", 0)
    end
    x = nn.block(i, function()
      return nn.add(x, mixer(nn, size, nn.rmsnorm { "norm", x, eps = size.layer_norm_epsilon }))
    end)
  end
  x = nn.rmsnorm { "norm_f", x, eps = size.layer_norm_epsilon }
  if size.tie_word_embeddings then
    nn.cross_entropy(nn.linear { "lm_head", x, tied = "embeddings.weight", head = true })
  else
    nn.cross_entropy(nn.linear { "lm_head", x, out = vocab, head = true, init = normal(size) })
  end
end

-- ---- the fields of config.json ----

-- What newer files write instead of the pattern.
local letters = {
  mamba = "M", linear_attention = "M", attention = "*", full_attention = "*", mlp = "-",
  moe = "E",
}

local function pattern_of(kinds)
  local out = {}
  for i, kind in ipairs(kinds) do
    out[i] = letters[kind]
    if not out[i] then
      return nil, "layers_block_type[" .. i .. "]: no block '" .. tostring(kind)
        .. "'; there are mamba, attention, mlp and moe"
    end
  end
  return table.concat(out)
end

local function is_limit(limit)
  return type(limit) ~= "table" or (limit[1] == 0 and limit[2] == math.huge)
end

-- What only blocks of experts need, as Nemotron-3-Nano-30B-A3B has it.
local expert_fields = { n_routed_experts = 128, num_experts_per_tok = 6,
  moe_intermediate_size = 1856, moe_shared_expert_intermediate_size = 3712 }

local function missing_expert_field(fields, pattern)
  for name, value in pairs(expert_fields) do
    local shared = name == "moe_shared_expert_intermediate_size"
    local needed = not (shared and fields.n_shared_experts == 0)
    if pattern:find("E", 1, true) and needed and not fields[name] then
      return name .. ": missing, and the pattern has blocks of experts (E); write " .. name
        .. " = " .. value
    end
  end
end

local function config(fields)
  local pattern, n = fields.hybrid_override_pattern, fields.num_hidden_layers
  if type(fields.layers_block_type) == "table" then
    local of_kinds, unknown = pattern_of(fields.layers_block_type)
    if unknown then return unknown end
    if pattern and pattern ~= of_kinds then
      return "layers_block_type: says " .. of_kinds .. ", and hybrid_override_pattern "
        .. tostring(pattern)
    end
    pattern = of_kinds
  end
  local fault = type(pattern) == "string" and missing_expert_field(fields, pattern)
  if fault then return fault end
  if type(pattern) == "string" and n and n ~= #pattern then
    return "num_hidden_layers: cannot be " .. tostring(n) .. "; the pattern has " .. #pattern
      .. " blocks"
  end
  if not is_limit(fields.time_step_limit) then
    return "time_step_limit: cannot be other than {0, infinity}: steps are not clamped here"
  end
  local window, most = fields.sliding_window, fields.max_position_embeddings
  if window and not (math.type(window) and math.type(most) and window >= most) then
    return "sliding_window: cannot be " .. tostring(window)
      .. ": attention sees all tokens before here"
  end
  if fields.moe_latent_size then
    return "moe_latent_size: cannot be " .. tostring(fields.moe_latent_size)
      .. ": experts work on the whole width here"
  end
  fields.hybrid_override_pattern = pattern
  fields.layer_norm_epsilon = fields.layer_norm_epsilon or fields.norm_eps
  for _, name in ipairs { "layers_block_type", "num_hidden_layers", "time_step_limit",
    "sliding_window", "max_position_embeddings", "norm_eps" } do
    fields[name] = nil
  end
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
      hybrid_override_pattern = pattern_12b, hidden_size = 5120, intermediate_size = 20480,
      num_attention_heads = 40, num_key_value_heads = 8, head_dim = 128,
      mamba_num_heads = 128, mamba_head_dim = 80, ssm_state_size = 128, n_groups = 8,
      conv_kernel = 4, vocab_size = 131072,
    },
    -- Nemotron-H-8B-Base, the 8B of the same paper.
    ["8b"] = {
      hybrid_override_pattern = pattern_8b, hidden_size = 4096, intermediate_size = 21504,
      num_attention_heads = 32, num_key_value_heads = 8, head_dim = 128,
      mamba_num_heads = 128, mamba_head_dim = 64, ssm_state_size = 128, n_groups = 8,
      conv_kernel = 4, vocab_size = 131072,
    },
    -- Nemotron-H-4B-Base.
    ["4b"] = {
      hybrid_override_pattern = pattern_8b, hidden_size = 3072, intermediate_size = 12288,
      num_attention_heads = 32, num_key_value_heads = 8, head_dim = 128,
      mamba_num_heads = 112, mamba_head_dim = 64, ssm_state_size = 128, n_groups = 8,
      conv_kernel = 4, vocab_size = 131072,
    },
    -- Nemotron-Nano-9B-v2, pruned from the 12B.
    ["9b"] = {
      hybrid_override_pattern = "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
      hidden_size = 4480, intermediate_size = 15680,
      num_attention_heads = 40, num_key_value_heads = 8, head_dim = 128,
      mamba_num_heads = 128, mamba_head_dim = 80, ssm_state_size = 128, n_groups = 8,
      conv_kernel = 4, vocab_size = 131072,
    },
    -- Nemotron-3-Nano-30B-A3B: experts in place of MLPs.
    ["nano30b-a3b"] = {
      hybrid_override_pattern = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
      hidden_size = 2688, intermediate_size = 1856,
      num_attention_heads = 32, num_key_value_heads = 2, head_dim = 128,
      mamba_num_heads = 64, mamba_head_dim = 64, ssm_state_size = 128, n_groups = 8,
      conv_kernel = 4, vocab_size = 131072,
      n_routed_experts = 128, num_experts_per_tok = 6, moe_intermediate_size = 1856,
      n_shared_experts = 1, moe_shared_expert_intermediate_size = 3712,
      routed_scaling_factor = 2.5, norm_topk_prob = true, n_group = 1, topk_group = 1,
    },
    -- The 62 blocks of the 12B, narrow: what a laptop trains.
    ["12b_proxy"] = {
      hybrid_override_pattern = pattern_12b, hidden_size = 64, intermediate_size = 256,
      num_attention_heads = 4, num_key_value_heads = 2, head_dim = 16,
      mamba_num_heads = 8, mamba_head_dim = 16, ssm_state_size = 16, n_groups = 2,
      conv_kernel = 4,
    },
    -- The 52 blocks of the 8B, narrow.
    ["8b_proxy"] = {
      hybrid_override_pattern = pattern_8b, hidden_size = 64, intermediate_size = 256,
      num_attention_heads = 4, num_key_value_heads = 2, head_dim = 16,
      mamba_num_heads = 8, mamba_head_dim = 16, ssm_state_size = 16, n_groups = 2,
      conv_kernel = 4,
    },
  },
  defaults = {
    layer_norm_epsilon = 1e-5, initializer_range = 0.02, tie_word_embeddings = false,
    use_conv_bias = true, rescale_prenorm_residual = true,
    n_shared_experts = 1, routed_scaling_factor = 1.0, norm_topk_prob = true, n_group = 1,
    topk_group = 1,
    bias_update_speed = 0.001, expert_alignment = 32, -- no fields of Hugging Face
  },
  only = {
    mlp_hidden_act = "relu2", mamba_hidden_act = "silu",
    use_bias = false, mlp_bias = false, attention_bias = false, mamba_proj_bias = false,
    attention_dropout = 0, hidden_dropout = 0,
    n_shared_experts = { 0, 1 }, -- their joint width is moe_shared_expert_intermediate_size
    time_step_min = 0.001, time_step_max = 0.1, time_step_floor = 1e-4,
  },
  config = config,
  graph = graph,
}
