-- Llama (arXiv 2302.13971, 2407.21783): RMSNorm, grouped-query attention with rotary positions,
-- SwiGLU. Sizes have the fields of Hugging Face's config.json, layers the names of its
-- checkpoints, except that query, key and value are one linear layer of three parts, as in
-- nemotron_h: they read one tensor and are split apart anyway, to turn two of them. Gate and up
-- stay two layers: swiglu reads both as they are, and a quantized copy of their input is shared.

local function normal(size)
  return { normal = size.initializer_range or 0.02 }
end

-- Newer files say rope_parameters, older ones rope_theta and rope_scaling.
local function rope(nn, size, x, head_dim)
  if size.rope_parameters and size.rope_scaling then
    error("llama: rope_parameters and rope_scaling say the same: give one of them", 0)
  end
  local scaling = size.rope_parameters or size.rope_scaling
  return nn.rope { x, head_dim = head_dim, scaling = scaling,
    theta = scaling and scaling.rope_theta or size.rope_theta }
end

local function attention(nn, size, x)
  local head_dim = size.head_dim or size.hidden_size // size.num_attention_heads
  local q_width = size.num_attention_heads * head_dim
  local kv_width = size.num_key_value_heads * head_dim
  local bias = size.attention_bias or false
  local qkv = nn.linear { "self_attn.qkv_proj", x, out = q_width + 2 * kv_width,
    parts = { "q_proj", "k_proj", "v_proj" }, bias = bias, init = normal(size) }
  local q, k, v = nn.split { qkv, sizes = { q_width, kv_width, kv_width } }
  local o = nn.attention { "self_attn", rope(nn, size, q, head_dim), rope(nn, size, k, head_dim),
    v, heads = size.num_attention_heads, kv_heads = size.num_key_value_heads,
    head_dim = head_dim }
  return nn.linear { "self_attn.o_proj", o, out = size.hidden_size, bias = bias,
    init = normal(size) }
end

local function mlp(nn, size, x)
  local bias = size.mlp_bias or false
  local gate = nn.linear { "mlp.gate_proj", x, out = size.intermediate_size, bias = bias,
    init = normal(size) }
  local up = nn.linear { "mlp.up_proj", x, out = size.intermediate_size, bias = bias,
    init = normal(size) }
  return nn.linear { "mlp.down_proj", nn.swiglu(gate, up), out = size.hidden_size, bias = bias,
    init = normal(size) }
end

local function graph(nn, size)
  local vocab = size.vocab_size or nn.vocab()
  local eps = size.rms_norm_eps or 1e-6
  local most = size.max_position_embeddings
  if most and nn.sequence() > most then
    error("llama: sequences of " .. nn.sequence() .. " tokens, but max_position_embeddings is "
      .. most, 0)
  end
  local x = nn.embedding { "embed_tokens", nn.tokens(), rows = vocab, out = size.hidden_size,
    init = normal(size) }
  for i = 0, size.num_hidden_layers - 1 do
    x = nn.block(i, function()
      local h = nn.add(x,
        attention(nn, size, nn.rmsnorm { "input_layernorm", x, eps = eps }))
      return nn.add(h, mlp(nn, size, nn.rmsnorm { "post_attention_layernorm", h, eps = eps }))
    end)
  end
  x = nn.rmsnorm { "norm", x, eps = eps }
  if size.tie_word_embeddings then
    nn.cross_entropy(nn.linear { "lm_head", x, tied = "embed_tokens.weight", head = true })
  else
    nn.cross_entropy(nn.linear { "lm_head", x, out = vocab, head = true, init = normal(size) })
  end
end

-- The kinds of rope that are none: nn.rope would only tell when the model is drawn.
local function rope_fault(fields, of_file)
  local scaling = fields.rope_parameters or fields.rope_scaling
  if type(scaling) ~= "table" and type(scaling) ~= "userdata" then return end
  local kind = scaling.rope_type or scaling.type or "default"
  if of_file and kind ~= "default" and kind ~= "linear" and kind ~= "llama3" then
    return "rope_type: cannot be \"" .. tostring(kind)
      .. "\"; llama computes with \"default\", \"linear\" or \"llama3\" only"
  end
  local theta, inner = fields.rope_theta, scaling.rope_theta
  if theta and inner and theta ~= inner then
    return "rope_theta: cannot be " .. tostring(theta) .. ": the table of rope says "
      .. tostring(inner) .. "; give one of them"
  end
end

-- Attention sees all tokens before, so windows must be as wide as the sequences.
local function window_fault(fields)
  local window, most = fields.sliding_window, fields.max_position_embeddings
  local kinds = fields.layer_types
  if type(kinds) == "table" or type(kinds) == "userdata" then
    for i, kind in ipairs(kinds) do
      if kind ~= "full_attention" then
        return "layer_types[" .. i .. "]: cannot be \"" .. tostring(kind)
          .. "\": attention sees all tokens before here"
      end
    end
  elseif window and not (math.type(window) and math.type(most) and window >= most)
    and fields.use_sliding_window ~= false then
    return "sliding_window: cannot be " .. tostring(window)
      .. ": attention sees all tokens before here"
  end
end

-- What the fields of a config.json mean where they are left out, and what is not computed here.
local function config(fields, of_file)
  local fault = rope_fault(fields, of_file) or window_fault(fields)
  if fault then return fault end
  fields.rope_scaling = fields.rope_scaling or nil -- false: none
  fields.rope_parameters = fields.rope_parameters or nil
  for _, name in ipairs { "sliding_window", "layer_types", "use_sliding_window" } do
    fields[name] = nil
  end
  fields.num_key_value_heads = fields.num_key_value_heads or fields.num_attention_heads
end

-- Without a vocab_size the model takes the vocabulary of its data.
return model {
  name = "llama",
  prefix = "model.",
  sizes = {
    tiny = {
      hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
      num_attention_heads = 4, num_key_value_heads = 2,
    },
    -- Llama-3.2-1B: 1,235,814,400 parameters.
    ["1b"] = {
      hidden_size = 2048, intermediate_size = 8192, num_hidden_layers = 16,
      num_attention_heads = 32, num_key_value_heads = 8, head_dim = 64,
      rms_norm_eps = 1e-5, rope_theta = 500000.0,
      rope_scaling = { rope_type = "llama3", factor = 32.0, low_freq_factor = 1.0,
        high_freq_factor = 4.0, original_max_position_embeddings = 8192 },
      max_position_embeddings = 131072, vocab_size = 128256, tie_word_embeddings = true,
      attention_bias = false, mlp_bias = false, initializer_range = 0.02,
    },
    -- Llama-3-8B: 8,030,261,248 parameters.
    ["8b"] = {
      hidden_size = 4096, intermediate_size = 14336, num_hidden_layers = 32,
      num_attention_heads = 32, num_key_value_heads = 8, head_dim = 128,
      rms_norm_eps = 1e-5,
      rope_parameters = { rope_type = "default", rope_theta = 500000.0 },
      max_position_embeddings = 8192, vocab_size = 128256, tie_word_embeddings = false,
      attention_bias = false, mlp_bias = false, initializer_range = 0.02,
    },
  },
  only = {
    hidden_act = "silu", attention_dropout = 0, pretraining_tp = 1, partial_rotary_factor = 1,
    rope_interleaved = false, logit_softcapping = false, final_logit_softcapping = false,
    attn_logit_softcapping = false, num_local_experts = { 0, false },
  },
  config = config,
  graph = graph,
}
