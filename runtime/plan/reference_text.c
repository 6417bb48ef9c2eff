/* What the reference of the recipe language says beyond its tables: see reference.h. */
#include "plan/reference.h"

const mpt_reference_text mpt_reference_texts[] = {
    {"A recipe file",
     "A recipe is one Lua 5.4 file that returns `recipe { ... }`. It declares and does nothing "
     "else: it reads no file, no clock and no environment. All words below are global and "
     "read-only; a name that does not exist is an error.\n\n"
     "```lua\n"
     "local gpt2 = require \"models.gpt2\"\n\n"
     "return recipe {\n"
     "  model = gpt2 \"base\",\n"
     "  precision = { rules = { rule { \"linear\", use = nvfp4 } } },\n"
     "  train = { steps = 300, batch = 16, sequence = 128, lr = cosine { peak = 2e-3, warmup = "
     "30 } },\n"
     "}\n"
     "```\n\n"
     "`mptrun R.lua --set train.lr.peak=1e-3` changes a field from the command line, by the "
     "path of tables and fields below `recipe`.",
     {"recipe file", "set"}},
    {"Numbers: fractions and counts",
     "Integers and floats differ where a field is a part of the run (`warmup`, `decay` of "
     "`wsd`, `from` of a phase). A number up to 1 written with a decimal point or an exponent "
     "is a fraction of the run; any other number is a count. A count is of steps; for `warmup` "
     "and `decay` it is of tokens where the run is given in tokens (`train.tokens`). `from` of "
     "a phase always counts steps, from 0: attempted ones, or with `by = \"applied\"` those "
     "that "
     "were not skipped.\n\n"
     "| written | means |\n"
     "| --- | --- |\n"
     "| `decay = 0.2` | the last fifth of the run |\n"
     "| `decay = 1` | one step, or one token |\n"
     "| `decay = 1.0` | the whole run |\n"
     "| `warmup = 30` | 30 steps, or 30 tokens |\n"
     "| `warmup = 8e9` | 8,000,000,000 steps, or tokens |\n"
     "| `from = 0.82` | after 82 % of the steps |\n"
     "| `from = 500` | at step 500 |",
     {"numbers", "fraction", "warmup", "decay", "from", "span"}},
    {"Files and changed copies",
     "`require \"models.NAME\"` and `require \"recipes.NAME\"` look beside the recipe and "
     "in the folder above it, then in the tree of mpt; any other dotted name is a file beside "
     "the recipe. Nothing else can "
     "be reached.\n\n"
     "`derive(base, { ... })` is a changed copy of a recipe, of a precision, of a model "
     "with its size (the fields of the size) or of any other value: tables merge field by "
     "field, lists of rules are appended (so that they win), and everything else is replaced, "
     "what a word made (`adamw { ... }`, `presets.nvfp4`) and "
     "other lists whole. `steps` and `tokens` drop each other. `replace { ... }` stands for a "
     "table or a list that takes the place of the old one.\n\n"
     "```lua\n"
     "return derive(require \"recipes.gpt2_fp8\", {\n"
     "  name = \"mine\",\n"
     "  precision = { rules = replace { rule { \"linear\", use = bf16 } } },\n"
     "})\n"
     "```\n\n"
     "The list of phases is such a list: name all that shall be. Fields of a value can be "
     "read, so that one of them changes alone:\n\n"
     "```lua\n"
     "local base = require \"recipes.nvfp4_12b\"\n\n"
     "return derive(base, {\n"
     "  phases = { base.phases[1], derive(base.phases[2], { from = 0.9 }) },\n"
     "})\n"
     "```",
     {"derive", "replace", "require"}},
    {"What no word covers",
     "These parts of published methods cannot be said here. A recipe without them is another "
     "method: none is imitated under its name.\n\n"
     "| not covered | used by |\n"
     "| --- | --- |\n"
     "| scales from the RMS of a block, with a mask on the gradient of what is clipped | "
     "Quartet (arXiv 2505.14669) |\n"
     "| stochastic rounding of the scales, corrected for bias (MS-EDEN) | Quartet II (arXiv "
     "2601.22813) |\n"
     "| weights set back when they oscillate; some channels in a higher format; a third level "
     "of scales | TetraJet-v2 (arXiv 2510.27527) |\n"
     "| averages of weights that decide their rounding (Q-EMA), rarer updates (Q-Ramping) | "
     "TetraJet (arXiv 2502.20853) |\n"
     "| differentiable estimators of the gradient, outliers clamped and added back sparse | "
     "FP4 quantization (arXiv 2501.17116) |\n"
     "| range expansion of optimizer states | COAT (arXiv 2410.19313) |\n"
     "| gradients in FP8 in memory and between ranks | FP8-LM (arXiv 2310.18313) |\n"
     "| uniform grids of 4 bits: E1M2, INT4 | UFP4 (arXiv 2606.20381) |\n"
     "| scales in E3M4, Smooth-SwiGLU, a phase that a measured noise starts, a learning rate "
     "that starts again in a phase | FP4 All the Way |\n"
     "| no master weights, the rounding error goes into the momentum | ECO (arXiv 2601.22101) "
     "|\n"
     "| activations kept in E5M6, tokens sent between experts in FP8 | DeepSeek-V3 (arXiv "
     "2412.19437) |",
     {"not covered", "covered"}},
    {"Data",
     "`text` takes the bytes of files, `tokens` the ids of token files, both of one file, of a "
     "glob (`*`, `?`, `[a-z]`; matches in the order of their bytes), or of a list. Paths are "
     "looked for from the working directory, then from the recipe's folder.\n\n"
     "```lua\n"
     "data = text { \"a.txt\", \"b.txt\", order = \"shuffle\" }\n"
     "data = tokens { files = { \"web_*.bin\", { path = \"wiki.bin\", weight = 2 } }, vocab = "
     "50257, validation = \"val.bin\" }\n"
     "```\n\n"
     "A window is `train.sequence` tokens and the target behind the last. None goes from one "
     "file into the next, and training reads none of what is held back for validation: the "
     "last "
     "share of each file, or files of their own. With `order = \"random\"` each row of a batch "
     "is a window that starts anywhere; with `\"shuffle\"` and `\"sequential\"` the files "
     "are cut into windows that do not overlap, and an epoch has each once. `weight = 2` means "
     "twice an epoch, or twice as often drawn; 0.5 a half of them, another half each epoch. "
     "The "
     "batch of a step depends on the seed and on how many batches came before, on nothing "
     "else.\n\n"
     "`train.epochs` is the length of a run whose data has an end. Where the windows of an "
     "epoch "
     "fill no whole number of batches, `remainder` says what becomes of the rest: of 10 "
     "windows "
     "at 4 a step, two epochs are 5 steps (`\"carry\"`), 6 (`\"step\"`: the last of each "
     "epoch is a mean over 2 rows, not 4) or 4 (`\"drop\"`). Metrics count the tokens that "
     "were trained on.\n\n"
     "`--data FILE` takes a glob too; `data.order`, `data.remainder`, `data.validation` and "
     "`data.vocab` may be set beside it.",
     {"data", "files", "epochs", "shuffle", "order", "validation"}},
    {"Errors",
     "What is wrong is told before anything runs, in one line: place, field path, fault, and "
     "the way out.\n\n"
     "```\n"
     "nvfp4.lua:14: precision.rules[2].use.wgrad.dy.rounding: no value 'stochastc'; did you "
     "mean 'stochastic'?\n"
     "```\n\n"
     "Refused are: a name, field or value that does not exist, with the nearest that does; a "
     "value of the wrong type or out of its range; a recipe without a model, a length or a "
     "learning rate; a rule that says nothing or matches no layer, or only a part of a fused "
     "one; blocks that the model does not have, and `first` and `last` that overlap; fields of "
     "a quantizer that do not go together; a rotation on one operand of a product only, or in "
     "`fprop` and `dgrad` on a weight with square blocks; a dimension that no block divides "
     "under `pad = \"error\"`; a loss scale of 0 or below; phases out of order. Whatever "
     "else is known to go wrong is a warning.",
     {"errors", "error"}},
    {"Rules",
     "Rules resolve like a style sheet: in order, and a later one wins where it speaks. A "
     "format replaces an operand's quantizer whole, and a bare format as `use` replaces all "
     "six; "
     "a table without a format changes only the fields in it. Where no rule speaks, "
     "`precision.base` holds.\n\n"
     "```lua\n"
     "rules = {\n"
     "  rule { \"linear\", use = gemm { weight = nvfp4 { block = {16, 16} }, activation = "
     "nvfp4, "
     "gradient = nvfp4 } },\n"
     "  rule { \"linear\", use = gemm { gradient = { rounding = \"stochastic\" } } }, -- one "
     "field "
     "more\n"
     "  rule { \"linear\", blocks = last(2), use = bf16 },                       -- all of it "
     "again\n"
     "  rule { \"*.o_proj\", where = function(layer) return layer.out_features % 16 == 0 end, "
     "use = e4m3 },\n"
     "}\n"
     "```\n\n"
     "A linear layer is three products of two operands each, its six slots:\n\n"
     "| product | first operand | second operand | the dot product runs along |\n"
     "| --- | --- | --- | --- |\n"
     "| `fprop`: y = x W^T | `x`, the activation | `w`, the weight | in features |\n"
     "| `dgrad`: dx = dy W | `dy`, the gradient | `w`, the weight | out features |\n"
     "| `wgrad`: dW = dy^T x | `dy`, the gradient | `x`, the activation | tokens |\n\n"
     "`weight`, `activation` and `gradient` of `gemm` fill both slots of that tensor; `fprop`, "
     "`dgrad` and `wgrad` then refine one product, and single operands in them win. Layers of "
     "other kinds take a plain format, in which they compute.\n\n"
     "`where` is given a table with `path`, `kind`, `block`, `in_features` and `out_features`.",
     {"rules", "slots", "where", "layer", "operand"}},
    {"Operations",
     "Operations other than linear layers follow the autocast table. All compute in FP32 "
     "inside; what differs is which format they read and put out:\n\n"
     "| class | operations | reads | puts out |\n"
     "| --- | --- | --- | --- |\n"
     "| low | `linear` (by rules), `attention` (its two products), `conv1d`, `moe_combine` "
     "(which reads what there is) | "
     "`precision.base` | `precision.base` |\n"
     "| fp32 | the softmax inside attention, `rmsnorm`, `layernorm`, `gated_rmsnorm`, "
     "`ssm_scan`, `moe_route`, `cross_entropy`, all sums | "
     "what there is, which is exact in FP32 | rounded to `precision.base`; softmax, weights of "
     "experts and loss FP32 |\n"
     "| widest | `embedding` (by `state.residual`), `gelu`, `silu`, `relu2`, `softplus`, "
     "`swiglu`, `softmax`, `scale`, `dropout`, "
     "`rope`, `add`, `mul`, `split`, `concat`, `moe_dispatch` | what there is | "
     "the widest input; the stream between blocks has `state.residual` |\n\n"
     "`precision.ops = { softmax = fp32, norm = fp32, gelu = bf16 }` changes rows, by the name "
     "of an operation or of a kind of them (`norm`, `conv`, `scan`), where the operation's own "
     "name wins. A rule that names the layer outranks both. Each cast that follows is a step "
     "of "
     "the schedule, with the slot `input` or `output`. Weights of norms, convolutions and "
     "scans "
     "are read as their masters are; the gradient of a value has the value's format, and goes "
     "straight through casts.\n\n"
     "`softmax = bf16` rounds what attention's second product reads, exp(s - m) with m the "
     "largest score s of its row; the sum that the result is divided by, and the gradient of "
     "the scores, stay FP32. `state.activation = e4m3` keeps what the backward pass of these "
     "operations reads of the forward pass in that format, by a plain saturating cast (slot "
     "`saved`): not the operands of linear layers, which keep copies of their own, nor "
     "logarithms of sums, states of scans and logits.",
     {"operations", "autocast", "low", "widest"}},
    {NULL, NULL, {NULL}},
};

const mpt_reference_word mpt_reference_examples[] = {
    {"recipe",
     "return recipe { version = 1, model = gpt2 \"base\", precision = { ... }, train = "
     "{ ... } }",
     ""},
    {"precision", "precision = { base = bf16, rules = { ... }, loss_scale = static(1024) }",
     ""},
    {"state",
     "state = { master = bf16 { rounding = \"stochastic\" }, adam_m = e4m3 { block = {1, 128} "
     "}, "
     "adam_v = fp16 { scale = current {} } }",
     ""},
    {"ops", "ops = { softmax = bf16, norm = fp32 }", ""},
    {"static", "loss_scale = static(1024)", ""},
    {"dynamic", "loss_scale = dynamic { init = 65536, interval = 2000 }", ""},
    {"rule", "rule { \"linear\", blocks = last(8), gemms = {\"fprop\"}, use = bf16 }", ""},
    {"gemm", "gemm { weight = e4m3, activation = e4m3, gradient = e5m2 }", ""},
    {"fprop", "fprop = { x = nvfp4, w = nvfp4, output = bf16 }", ""},
    {"dgrad", "dgrad = { dy = nvfp4 { rounding = \"stochastic\" } }", ""},
    {"wgrad", "wgrad = { hadamard = hadamard { size = 16, signs = \"fixed\" } }", ""},
    {"quantizer", "nvfp4 { block = {16, 16}, rounding = \"stochastic\" }", ""},
    {"delayed", "e4m3 { scale = delayed { history = 16, algo = \"max\" } }", ""},
    {"scale.static", "e4m3 { scale = static(1) }", ""},
    {"four_over_six", "nvfp4 { scale_rule = four_over_six { error = \"mse\" } }", ""},
    {"hadamard", "hadamard { size = 16, signs = \"fixed\" }", ""},
    {"phase", "phase { \"settle\", from = 0.82, rules = { rule { \"linear\", use = bf16 } } }",
     ""},
    {"train",
     "train = { steps = 300, batch = 16, sequence = 128, lr = constant { peak = 1e-3 } }", ""},
    {"recompute", "recompute = { every = 2 }", ""},
    {"eval", "eval = { every = 100, batches = 8, use = bf16 }", ""},
    {"adamw", "optimizer = adamw { betas = {0.9, 0.95}, eps = 1e-8, weight_decay = 0.1 }", ""},
    {"sgd", "optimizer = sgd { momentum = 0.9 }", ""},
    {"constant", "lr = constant { peak = 1e-3, warmup = 100 }", ""},
    {"linear", "lr = linear { peak = 1e-3, final = 1e-5, warmup = 0.01 }", ""},
    {"cosine", "lr = cosine { peak = 1e-3, final = 1e-5, warmup = 0.01 }", ""},
    {"wsd", "lr = wsd { peak = 1e-3, final = 1e-5, warmup = 100, decay = 0.2 }", ""},
    {"synthetic", "data = synthetic { seed = 1, vocab = 128 }", ""},
    {"file", "data = tokens { files = { \"web_*.bin\", { path = \"wiki.bin\", weight = 2 } } }",
     ""},
    {"text", "data = text \"corpus.txt\"", ""},
    {"tokens", "data = tokens { path = \"train.bin\", vocab = 50257 }", ""},
    {"batches", "data = batches \"batches.safetensors\"", ""},
    {NULL, NULL, NULL},
};

const mpt_reference_word mpt_reference_selectors[] = {
    {"first", "first(2)", "the first 2"},
    {"last", "last(8)", "the last 8"},
    {"range", "range(2, 5)", "2, 3, 4 and 5: both ends count"},
    {"every", "every(4)", "0, 4, 8 and so on"},
    {"last_fraction", "last_fraction(0.15)", "the last 15 %, rounded up to whole blocks"},
    {"only", "only { 3, 7 }", "3 and 7"},
    {NULL, NULL, NULL},
};

/* The first row's doc stands above the table. */
const mpt_reference_word mpt_reference_model[] = {
    {"model", "",
     "A model is a Lua file that returns `model { ... }`; called with the name of a size, or "
     "with "
     "a table of its own, it gives what `recipe.model` takes. It draws the forward pass and no "
     "precision.\n\n"
     "Sizes of the shipped models have the fields of Hugging Face's config.json. A table has "
     "at "
     "least the fields that all named sizes have. `model.from_config \"FOLDER\"` (or the path "
     "of "
     "the file) reads a config.json and takes the model of its `model_type`; what the file "
     "says "
     "beyond the model's fields is left aside, but a value that would change the computation "
     "and is not computed here is refused. A second argument replaces fields, "
     "each of them one of the model's: "
     "`model.from_config(\"gpt2\", { attn_pdrop = 0 })`. A path starts at the working "
     "directory "
     "or at the recipe's folder.\n\n"
     "```lua\n"
     "return model {\n"
     "  name = \"mine\",\n"
     "  sizes = { tiny = { layers = 2, width = 32 } },\n"
     "  graph = function(nn, size)\n"
     "    local x = nn.embedding { \"wte\", nn.tokens(), out = size.width }\n"
     "    for i = 0, size.layers - 1 do\n"
     "      x = nn.block(i, function()\n"
     "        return nn.add(x, nn.linear { \"proj\", nn.silu(nn.rmsnorm { \"norm\", x }), out "
     "= "
     "size.width })\n"
     "      end)\n"
     "    end\n"
     "    nn.cross_entropy(nn.linear { \"head\", x, head = true })\n"
     "  end,\n"
     "}\n"
     "```"},
    {"name", "name", "What messages and the plan call it. Required."},
    {"sizes", "sizes",
     "Tables by the name of the size; what is in them is the model's own. Required."},
    {"graph", "graph", "The function that draws: of `nn` and of the size. Required."},
    {"root", "root",
     "What paths of blocks begin with: `\"h\"` gives `h.0.`. Default `\"layers\"`."},
    {"prefix", "prefix",
     "What names of its tensors begin with in checkpoints: `\"transformer.\"`. Default "
     "nothing. "
     "Files with another root are read all the same."},
    {"defaults", "defaults",
     "Fields that a size may leave out, with what they are then: `{ layer_norm_epsilon = 1e-5 "
     "}`. Default none."},
    {"only", "only",
     "Fields that change what is computed, with the values that the model has, one or a list: "
     "`{ "
     "hidden_act = \"silu\" }`. Another one is refused. Default none."},
    {"config", "config",
     "A function that rewrites other spellings in a table of fields, of a size or of a "
     "config.json (the second argument tells which: true of a file), and gives a text where "
     "they cannot be. Default none."},
    {NULL, NULL, NULL},
};

const mpt_reference_word mpt_reference_builders[] = {
    {"tokens", "nn.tokens()", "the batch's token ids"},
    {"positions", "nn.positions()", "the position of each token"},
    {"vocab", "nn.vocab()", "how many words the data has"},
    {"sequence", "nn.sequence()", "tokens a sequence"},
    {"block", "nn.block(i, function() ... end)",
     "layers drawn by the function belong to block `i`, from 0; gives what it returns"},
    {NULL, NULL, NULL},
};
