-- One repeated unit of Nemotron-H 12B, a Mamba block and an MLP block of its full width, at 8192
-- tokens: what a layer of the real model takes. The vocabulary is small, so that the head does
-- not hide it.
local nemotron_h = require "models.nemotron_h"

return recipe {
  version = 1,
  name    = "block_12b_bf16",
  model   = nemotron_h {
    hybrid_override_pattern = "M-", hidden_size = 5120, intermediate_size = 20480,
    num_attention_heads = 40, num_key_value_heads = 8, head_dim = 128,
    mamba_num_heads = 128, mamba_head_dim = 80, ssm_state_size = 128, n_groups = 8,
    conv_kernel = 4, vocab_size = 512,
  },
  precision = { rules = { rule { "linear", use = bf16 } } },
  train = {
    steps = 10, batch = 1, micro_batch = 1, sequence = 8192,
    optimizer = adamw { betas = {0.9, 0.95}, eps = 1e-8, weight_decay = 0.1 },
    lr = cosine { peak = 4.5e-4, final = 4.5e-6, warmup = 0.1 },
    clip = 1.0,
  },
}
