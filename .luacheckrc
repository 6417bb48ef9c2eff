-- What recipes and models may name: the words of lua/bind/words.c.
std = "lua54"
max_line_length = 130
files["recipes"].read_globals = {
  "fp32", "bf16", "fp16", "e4m3", "e5m2", "nvfp4",
  "hadamard", "gemm", "rule", "phase", "recipe", "derive", "replace",
  "first", "last", "range", "every", "last_fraction", "only",
  "adamw", "sgd", "constant", "linear", "cosine", "wsd", "static", "text", "synthetic",
}
files["models"].read_globals = { "model" }
