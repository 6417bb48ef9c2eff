-- What recipes and models may name: the words of lua/bind/words.c.
exclude_files = { "tests/lua/bad" } -- what must be refused, by luacheck too
std = "lua54"
max_line_length = 130
local words = {
  "fp32", "tf32", "bf16", "fp16", "e4m3", "e5m2", "e5m6", "e3m2", "e2m3", "e2m1", "int8", "e8m0",
  "mxfp8", "mxfp6", "mxfp4", "nvfp4", "fp8_block", "current", "delayed", "four_over_six",
  "hadamard", "gemm", "rule", "phase", "precision", "presets", "recipe", "derive", "replace",
  "first", "last", "range", "every", "last_fraction", "only",
  "adamw", "sgd", "constant", "linear", "cosine", "wsd", "static", "dynamic", "text", "synthetic",
}
files["recipes"].read_globals = words
files["lua/presets.lua"].read_globals = words
files["models"].read_globals = { "model" }
files["tests/lua"].read_globals = words
files["lua/types"] = { global = false, unused_args = false, max_line_length = false }
