-- A mixture of experts in the shape of DeepSeek-V3 (arXiv 2412.19437), small: RMSNorm, attention
-- with rotary positions, dense gated blocks first, then blocks of routed experts with a shared
-- one. Experts are chosen by sigmoid scores and a bias that evens their load; there is no
-- auxiliary loss. Layers and the fields of a size have the names of Hugging Face's deepseek_v3.
-- Not here: its latent attention, in whose place query, key and value are one linear layer of
-- three parts, and the prediction of several tokens.

-- Projections into the stream are scaled for depth: each block adds to it twice.
local function residual_init(size)
  return { normal = size.initializer_range / math.sqrt(2 * size.num_hidden_layers) }
end

local function linear(nn, size, name, x, out, init)
  return nn.linear { name, x, out = out, init = init or { normal = size.initializer_range } }
end

local function attention(nn, size, x)
  local head_dim = size.head_dim or size.hidden_size // size.num_attention_heads
  local q_width = size.num_attention_heads * head_dim
  local kv_width = size.num_key_value_heads * head_dim
  local qkv = nn.linear { "self_attn.qkv_proj", x, out = q_width + 2 * kv_width,
    parts = { "q_proj", "k_proj", "v_proj" }, init = { normal = size.initializer_range } }
  local q, k, v = nn.split { qkv, sizes = { q_width, kv_width, kv_width } }
  local function turn(y)
    local rope = size.rope_parameters
    return nn.rope { y, head_dim = head_dim, scaling = rope,
      theta = rope and rope.rope_theta or size.rope_theta }
  end
  local o = nn.attention { "self_attn", turn(q), turn(k), v, heads = size.num_attention_heads,
    kv_heads = size.num_key_value_heads, head_dim = head_dim }
  return linear(nn, size, "self_attn.o_proj", o, size.hidden_size, residual_init(size))
end

-- A gated MLP; the shared experts are one of their joint width.
local function mlp(nn, size, name, x, hidden)
  local gate = linear(nn, size, name .. ".gate_proj", x, hidden)
  local up = linear(nn, size, name .. ".up_proj", x, hidden)
  return linear(nn, size, name .. ".down_proj", nn.swiglu(gate, up), size.hidden_size,
    residual_init(size))
end

local function experts(nn, size, x)
  local routed = nn.moe { "mlp", x, experts = size.n_routed_experts,
    top_k = size.num_experts_per_tok, hidden = size.moe_intermediate_size,
    activation = "swiglu", score = size.scoring_func, normalize = size.norm_topk_prob,
    scale = size.routed_scaling_factor, groups = size.n_group, top_groups = size.topk_group,
    bias = true, balance = size.bias_update_speed, align = size.expert_alignment,
    init = { normal = size.initializer_range }, down_init = residual_init(size) }
  if size.n_shared_experts == 0 then
    return routed
  end
  return nn.add(routed, mlp(nn, size, "mlp.shared_experts", x,
    size.n_shared_experts * size.moe_intermediate_size))
end

local function graph(nn, size)
  local vocab = size.vocab_size or nn.vocab()
  local most = size.max_position_embeddings
  if most and nn.sequence() > most then
    error("deepseek_moe: sequences of " .. nn.sequence()
      .. " tokens, but max_position_embeddings is " .. most, 0)
  end
  local x = nn.embedding { "embed_tokens", nn.tokens(), rows = vocab, out = size.hidden_size,
    init = { normal = size.initializer_range } }
  for i = 0, size.num_hidden_layers - 1 do
    x = nn.block(i, function()
      local eps = size.rms_norm_eps
      local h = nn.add(x, attention(nn, size, nn.rmsnorm { "input_layernorm", x, eps = eps }))
      local u = nn.rmsnorm { "post_attention_layernorm", h, eps = eps }
      if i < size.first_k_dense_replace then
        return nn.add(h, mlp(nn, size, "mlp", u, size.intermediate_size))
      end
      return nn.add(h, experts(nn, size, u))
    end)
  end
  x = nn.rmsnorm { "norm", x, eps = size.rms_norm_eps }
  if size.tie_word_embeddings then
    nn.cross_entropy(nn.linear { "lm_head", x, tied = "embed_tokens.weight", head = true })
  else
    nn.cross_entropy(nn.linear { "lm_head", x, out = vocab, head = true,
      init = { normal = size.initializer_range } })
  end
end

-- Newer files say rope_parameters, older ones rope_theta and rope_scaling, which becomes
-- rope_parameters.
local function rope_fault(fields, of_file)
  if fields.rope_parameters and fields.rope_scaling then
    return "rope_parameters and rope_scaling say the same: give one of them"
  end
  local rope = fields.rope_parameters or fields.rope_scaling
  fields.rope_parameters, fields.rope_scaling = rope or nil, nil -- false: none
  if type(rope) ~= "table" and type(rope) ~= "userdata" then return end
  local kind = rope.rope_type or rope.type or "default"
  if of_file and kind ~= "default" and kind ~= "linear" and kind ~= "llama3" then
    return "rope_type: cannot be \"" .. tostring(kind)
      .. "\"; deepseek_moe computes with \"default\", \"linear\" or \"llama3\" only"
  end
  if fields.rope_theta and rope.rope_theta and fields.rope_theta ~= rope.rope_theta then
    return "rope_theta: cannot be " .. tostring(fields.rope_theta)
      .. ": the table of rope says " .. tostring(rope.rope_theta) .. "; give one of them"
  end
  fields.rope_theta = rope.rope_theta or fields.rope_theta
end

-- What the fields of a config.json ask for that is not here.
local function config(fields, of_file)
  local fault = rope_fault(fields, of_file)
  if fault then return fault end
  for _, name in ipairs { "q_lora_rank", "kv_lora_rank" } do
    if fields[name] then
      return name .. ": cannot be " .. tostring(fields[name])
        .. ": there is no latent attention here"
    end
  end
  if fields.num_nextn_predict_layers and fields.num_nextn_predict_layers ~= 0 then
    return "num_nextn_predict_layers: cannot be " .. tostring(fields.num_nextn_predict_layers)
      .. ": one token is predicted here"
  end
  for _, name in ipairs { "q_lora_rank", "kv_lora_rank", "num_nextn_predict_layers" } do
    fields[name] = nil
  end
end

-- Without a vocab_size the model takes the vocabulary of its data. bias_update_speed and
-- expert_alignment are no fields of Hugging Face: the paper's speed of the bias, and what the
-- rows of an expert fill a multiple of, 128 for scales over 128 tokens.
return model {
  name = "deepseek_moe",
  prefix = "model.",
  sizes = {
    tiny = {
      num_hidden_layers = 2, hidden_size = 32, intermediate_size = 64,
      num_attention_heads = 2, num_key_value_heads = 1,
      n_routed_experts = 8, num_experts_per_tok = 2, moe_intermediate_size = 32,
      n_group = 4, topk_group = 2, expert_alignment = 32,
    },
    -- Routed experts alone, in every block.
    tiny_routed = {
      num_hidden_layers = 2, hidden_size = 32, intermediate_size = 64,
      num_attention_heads = 2, num_key_value_heads = 1,
      n_routed_experts = 8, num_experts_per_tok = 2, moe_intermediate_size = 32,
      expert_alignment = 32, n_shared_experts = 0, first_k_dense_replace = 0,
      rope_parameters = { rope_type = "default", rope_theta = 10000.0 },
      max_position_embeddings = 4096,
    },
    small = {
      num_hidden_layers = 4, hidden_size = 128, intermediate_size = 512,
      num_attention_heads = 4, num_key_value_heads = 4,
      n_routed_experts = 8, num_experts_per_tok = 2, moe_intermediate_size = 128,
      n_group = 4, topk_group = 2,
    },
  },
  defaults = {
    n_shared_experts = 1, first_k_dense_replace = 1, n_group = 1, topk_group = 1,
    scoring_func = "sigmoid", norm_topk_prob = true, routed_scaling_factor = 2.5,
    rms_norm_eps = 1e-6, rope_theta = 10000.0, initializer_range = 0.02,
    tie_word_embeddings = false, bias_update_speed = 0.001, expert_alignment = 128,
  },
  only = {
    hidden_act = "silu", attention_bias = false, attention_dropout = 0, moe_layer_freq = 1,
    topk_method = "noaux_tc", partial_rotary_factor = 1,
  },
  config = config,
  graph = graph,
}
