---@meta
-- The words of mpt's recipes, for editors with the Lua language server. Made from the
-- compiler's tables by `mptrun --list-types`.

---Which blocks a rule speaks of.
---@class mpt.blocks

---A model with its size.
---@class mpt.model_size

---What a word of nn gives.
---@class mpt.tensor

---A number format; called with fields it gives a refined one.
---@class mpt.format
---@overload fun(fields: mpt.quantizer_fields): mpt.format

---A family of models; called with the name of a size, or with a table, it gives one.
---@class mpt.model
---@overload fun(size: string|table): mpt.model_size

---What the function of a rule sees of a layer.
---@class mpt.layer
---@field path string its name in checkpoints, without the root
---@field kind string
---@field block integer from 0; -1 outside blocks
---@field in_features integer
---@field out_features integer

---@alias mpt.operand mpt.format|mpt.quantizer_fields
---@alias mpt.product "fprop"|"dgrad"|"wgrad"
---@alias mpt.init "zeros"|"ones"|{ normal: number }|{ uniform: number }

---@alias mpt.warning
---| "rule-shadowed" # A rule that decides nothing, because later ones do.
---| "nothing-quantized" # Rules name narrow formats, but every linear layer ends up without one.
---| "no-effect" # A field that changes no step of this run.
---| "sr-forward" # Stochastic rounding in fprop, which is known to diverge.
---| "all-fp4" # In every phase each linear layer of the last block multiplies FP4 by FP4.
---| "rht-forward" # A Hadamard rotation in fprop, where it costs accuracy.
---| "short-history" # Delayed scaling with a window under 16 steps: one quiet stretch makes scales too large.
---| "fp8-softmax" # Attention's probabilities in 8 bits: small ones vanish, and their gradients with them.
---| "fp8-norm" # What norms put out in 8 bits, under no scale.
---| "no-clip" # Gradients are not clipped: one bad batch can ruin the weights.
---| "fp16-no-loss-scale" # Something is in FP16 and no loss scale keeps small gradients from vanishing.
---| "loss-scale-unused" # A loss scale, but nothing is in FP16.
---| "loss-scale-below-one" # A loss scale under 1, which makes small gradients smaller.
---| "low-precision-accumulate" # Long sums whose running value is kept in 16 bits: small terms no longer count.
---| "lost-update" # A state of 16 bits that changes by less than half an ulp a step, and so not at all.
---| "no-warmup" # The first steps run at the full learning rate.
---| "binary-text" # A file that is read as text, byte by byte, and is none.
---| "not-native" # A GEMM that the GPU named by --target has to emulate. Given where a GPU is named.

---@class mpt.recipe_fields
---@field version? integer Of the recipe language. Default: 1.
---@field name? string Names the run's folder. Default: the file's name.
---@field description? string For readers. Default: none.
---@field model mpt.model_size What is trained: nemotron_h "12b".
---@field proxy? mpt.model_size A small model that stands for the full one on this machine. Default: none.
---@field precision? mpt.precision_fields|mpt.precision Which format holds what. Default: bf16.
---@field phases? mpt.phase[] Precision over time. Default: one.
---@field train mpt.train_fields Length, batch, optimizer, learning rate.
---@field data? mpt.synthetic|mpt.text|mpt.tokens|mpt.batches Where tokens come from. Default: synthetic.
---@field allow? mpt.warning|mpt.warning[] Names of warnings to keep quiet. Default: none.

---@class mpt.precision_fields
---@field base? mpt.format The format where no rule speaks. With `tf32` the operands of linear layers are rounded to it; what they put out and all else is in fp32. Default: bf16.
---@field rules? mpt.rule[] In order; a later rule wins over an earlier one. Default: none.
---@field state? mpt.state_fields Formats of what lives longer than a layer. Default: all fp32.
---@field ops? mpt.ops_fields Formats of the operations other than linear layers. Default: the autocast table.
---@field loss_scale? number|mpt.static|mpt.dynamic Keeps small FP16 gradients from vanishing: static(1024) or dynamic { }. Default: none.

---@class mpt.state_fields
---@field master? mpt.format The weights that the optimizer updates: it computes in FP32 and rounds the new weight to nearest even, or as `bf16 { rounding = "stochastic" }` says, which loses no update on average. `fp16 { scale = current {} }` has a scale a tensor. Initial weights are rounded too, to nearest. Default: fp32.
---@field gradient? mpt.format Gradients: the sum over micro-batches is rounded to nearest even after each addition to it. Default: fp32.
---@field reduce? mpt.format What a rank sends to be added up over ranks: the step's gradient is rounded to it once, before it is measured; fp32 sends it as it is. Default: fp32.
---@field adam_m? mpt.format AdamW's first moments as they are kept: the step uses the new FP32 moment, then it is rounded to nearest even, or as the format's fields say: `rounding = "stochastic"`; of `e4m3` and `e5m2`, which have a scale of the tensor at hand, `block = {1, 128}`, `scale_format`. Default: fp32.
---@field adam_v? mpt.format AdamW's second moments as they are kept, in the same way. Plain `fp16` loses squares below 3e-8; `fp16 { scale = current {} }` has a scale a tensor, as in MS-AMP. Default: fp32.
---@field residual? mpt.format The stream between blocks. Default: precision.base.
---@field activation? mpt.format What is kept of activations for the backward pass of layers other than linear: a plain saturating cast. Linear layers keep their operands. Default: as computed.

---@class mpt.dynamic_fields
---@field init? number The first step's scale. Default: 65536.
---@field growth? number The scale is multiplied by it after interval good steps. Default: 2.
---@field backoff? number The scale is multiplied by it after a step whose gradients were not finite, which is skipped. Default: 0.5.
---@field interval? integer Good steps in a row before the scale grows. Default: 2000.
---@field min? number The scale falls no lower. Default: 1.
---@field max? number The scale grows no higher. Default: 16777216.
---@field hysteresis? integer The scale falls at the last of so many skipped steps, and at each one after it; a growth of the scale starts the count again. Default: 1.

---@class mpt.rule_fields
---@field [1] string|string[] A kind such as "linear", a glob on layer paths, or a list of them.
---@field blocks? mpt.blocks Blocks it speaks of: first(n), last(n), range(a,b), every(k), last_fraction(f), only{...}. Default: all.
---@field gemms? mpt.product|mpt.product[] Products it speaks of, out of fprop, dgrad, wgrad. Default: all three.
---@field where? fun(layer: mpt.layer): boolean A function of the layer, called once a layer. Default: none.
---@field use mpt.format|mpt.gemm A format, a gemm, or for other layers a compute format.

---@class mpt.gemm_fields
---@field weight? mpt.operand The weight, in fprop and in dgrad. Default: as the rules before say.
---@field activation? mpt.operand The input, in fprop and in wgrad. Default: as the rules before say.
---@field gradient? mpt.operand The gradient of the output, in dgrad and in wgrad. Default: as the rules before say.
---@field fprop? mpt.fprop_fields Fields of the forward product y = x W^T alone. Default: as the rules before say.
---@field dgrad? mpt.dgrad_fields Fields of the input gradient dx = dy W alone. Default: as the rules before say.
---@field wgrad? mpt.wgrad_fields Fields of the weight gradient dW = dy^T x alone. Default: as the rules before say.
---@field output? mpt.format The format of y and of dx; dW takes that of the gradients. Default: precision.base; fp32 for the head's logits.
---@field accumulate? mpt.format The format of the running sums of all three products: rounded to nearest even after each 16 products along the dot product. Default: fp32.
---@field promote? integer Products, a multiple of 16, after which the running sum of each product is added to a total in FP32 and starts again from zero. Default: none.

---@class mpt.fprop_fields
---@field x? mpt.operand The activation; the dot product runs along in features. Default: as the rules before say.
---@field w? mpt.operand The weight. Default: as the rules before say.
---@field hadamard? mpt.hadamard|"none" Rotates both operands of this GEMM, so that the product stays. Default: as the rules before say.
---@field output? mpt.format The format of y. Default: precision.base; fp32 for the head's logits.
---@field accumulate? mpt.format The format of its running sum: rounded to nearest even after each 16 products along the dot product. Default: fp32.
---@field promote? integer Products, a multiple of 16, after which its running sum is added to a total in FP32 and starts again from zero. Default: none.

---@class mpt.dgrad_fields
---@field dy? mpt.operand The gradient; the dot product runs along out features. Default: as the rules before say.
---@field w? mpt.operand The weight. Default: as the rules before say.
---@field hadamard? mpt.hadamard|"none" Rotates both operands of this GEMM, so that the product stays. Default: as the rules before say.
---@field output? mpt.format The format of dx. Default: precision.base; fp32 for the head's logits.
---@field accumulate? mpt.format The format of its running sum: rounded to nearest even after each 16 products along the dot product. Default: fp32.
---@field promote? integer Products, a multiple of 16, after which its running sum is added to a total in FP32 and starts again from zero. Default: none.

---@class mpt.wgrad_fields
---@field dy? mpt.operand The gradient; the dot product runs along tokens. Default: as the rules before say.
---@field x? mpt.operand The activation. Default: as the rules before say.
---@field hadamard? mpt.hadamard|"none" Rotates both operands of this GEMM, so that the product stays. Default: as the rules before say.
---@field accumulate? mpt.format The format of its running sum: rounded to nearest even after each 16 products along the dot product. Default: fp32.
---@field promote? integer Products, a multiple of 16, after which its running sum is added to a total in FP32 and starts again from zero. Default: none.

---@class mpt.quantizer_fields
---@field format? mpt.format The elements of a preset that has a choice: mxfp8 and fp8_block take e4m3 or e5m2, mxfp6 e3m2 or e2m3. Default: by format.
---@field block? { [1]: integer, [2]: integer }|"tensor"|"row" Elements that share a scale: rows and columns, columns along the dot product. Default: by format.
---@field scale? mpt.current|mpt.delayed|mpt.static Where the scale comes from: the tensor at hand (`current {}`), earlier steps (`delayed { ... }`), or the recipe (`static(x)`). The last two want one scale a tensor. Default: by format.
---@field scale_format? mpt.format|"pow2" How a scale is stored: `fp32`; `"pow2"`, FP32 that holds a power of two; `e8m0`, its exponent in one byte; `e4m3`, one byte a block, under an outer scale or none. Default: by format.
---@field scale_rule? mpt.four_over_six|"nearest"|"up"|"floor"|"ceil"|"even" How a scale is rounded or chosen. With `fp32` scales it is nearest, with `"pow2"` up; `e8m0` takes up, floor, ceil or even, `e4m3` nearest or four_over_six. Where it is not said it follows scale_format: the first of these. Default: by scale_format.
---@field outer? "none"|"tensor"|"row" The second level of scales over block scales in e4m3; other scales have none. Default: by format.
---@field headroom? number Factor on the format's largest magnitude, which the largest element is brought to: 3/4, 16/17. Default: 1.
---@field rounding? "nearest"|"stochastic"|"toward_zero"|"half_away" How elements are rounded; scales follow scale_rule. Default: nearest.
---@field hadamard? mpt.hadamard|"none" Rotation along the dot product before the amax is taken. Default: none.
---@field nonfinite? "propagate"|"saturate" What NaN and Inf become. Default: propagate.
---@field source? "original"|"dequantized" What the second, transposed copy of a tensor is quantized from. Default: original.
---@field pad? "zero"|"bf16"|"error" Where a dimension is no multiple of the block. Default: zero.

---@class mpt.delayed_fields
---@field history? integer Steps whose largest magnitudes are kept. Default: 1024.
---@field algo? "max"|"most_recent" Which of the kept magnitudes the scale is made from. Default: max.
---@field margin? integer The scale is divided by 2^margin. Default: 0.
---@field headroom? number The scale is divided by it: a margin that is a factor. Default: 1.
---@field reduce_amax? boolean Ranks share the largest of their magnitudes. Default: true.

---@class mpt.four_over_six_fields
---@field error? "mae"|"mse" What tells the better scale of a block. Default: mae.
---@field bound? 256|448 The largest block scale that the outer scale aims at. Default: 256.

---@class mpt.hadamard_fields
---@field size? 2|4|8|16|32|64|128 Elements rotated together, a power of two. Default: 16.
---@field signs? "fixed"|"random"|"none" The signs that elements are multiplied by first. Default: fixed.
---@field scope? "shared"|"layer" Which layers share random signs. Default: shared.
---@field redraw? "never"|"step" When random signs are drawn. Default: never.
---@field seed? integer Keys random signs; -1 takes the seed of the run. Default: -1.

---@class mpt.phase_fields
---@field [1] string Its name.
---@field from? number Where the phase starts: a step, or with a decimal point a fraction of the run. Default: 0.
---@field steps? integer Instead of from: starts after so many steps. Default: none.
---@field tokens? number Instead of from: starts after so many tokens, rounded up to steps. Default: none.
---@field by? "attempted"|"applied" Which steps the start counts. Of several phases whose start has come, the last runs. Default: attempted.
---@field use? mpt.format|mpt.gemm Short for a rule over all linear layers, in front of the phase's own. Default: none.
---@field rules? mpt.rule[] Rules added after the recipe's own while the phase runs. Default: none.
---@field warm_histories? boolean Operands that enter delayed scaling here have their magnitudes recorded all through the phase before, at a pass over each of them; else they take current scales at their first step. Default: false.

---@class mpt.train_fields
---@field steps? integer Optimizer steps. Default: this or tokens.
---@field tokens? number Tokens, rounded up to steps. Default: this or steps.
---@field epochs? integer Times that training goes through its data, which needs an order with an end: `shuffle`, `sequential` or batches. Rounded up to steps. Default: this or steps.
---@field batch integer Sequences an optimizer step.
---@field micro_batch? integer Sequences computed at once; batch is a multiple of it. Default: batch for the proxy, and for a model below 100 M parameters without one; else 1.
---@field sequence integer Tokens a sequence.
---@field optimizer? mpt.adamw|mpt.sgd How gradients move the weights. Default: adamw.
---@field decay? "matrices"|"all" What weight decay applies to. Default: matrices.
---@field lr mpt.constant|mpt.linear|mpt.cosine|mpt.wsd The learning rate over the run.
---@field clip? number Largest norm of all gradients together; 0 does not clip. Default: 1.
---@field recompute? mpt.recompute_fields|"none"|"block" Activations that the backward pass makes again, bit for bit, instead of keeping them. Default: none.
---@field seed? integer Of initial weights, order of data and stochastic rounding. Default: 1234.
---@field eval? mpt.eval_fields When the validation loss is taken. Default: at the end.
---@field checkpoint? mpt.checkpoint_fields When the state of the run is saved. Default: at the end.
---@field watch? mpt.watch_fields What happens when something goes wrong. Default: skips, and 20 in a row stop.
---@field telemetry? mpt.telemetry_fields|number How often every operand is measured. Default: every 10th step, or 100 times a run.
---@field proxy? mpt.proxy_fields Any of these fields again, for when the proxy is trained. Default: none.

---@class mpt.proxy_fields
---@field steps? integer Optimizer steps.
---@field tokens? number Tokens, rounded up to steps.
---@field epochs? integer Times that training goes through its data, which needs an order with an end: `shuffle`, `sequential` or batches. Rounded up to steps.
---@field batch? integer Sequences an optimizer step.
---@field micro_batch? integer Sequences computed at once; batch is a multiple of it.
---@field sequence? integer Tokens a sequence.
---@field optimizer? mpt.adamw|mpt.sgd How gradients move the weights.
---@field decay? "matrices"|"all" What weight decay applies to.
---@field lr? mpt.constant|mpt.linear|mpt.cosine|mpt.wsd The learning rate over the run.
---@field clip? number Largest norm of all gradients together; 0 does not clip.
---@field recompute? mpt.recompute_fields|"none"|"block" Activations that the backward pass makes again, bit for bit, instead of keeping them.
---@field seed? integer Of initial weights, order of data and stochastic rounding.
---@field eval? mpt.eval_fields When the validation loss is taken.
---@field checkpoint? mpt.checkpoint_fields When the state of the run is saved.
---@field watch? mpt.watch_fields What happens when something goes wrong.
---@field telemetry? mpt.telemetry_fields|number How often every operand is measured.

---@class mpt.recompute_fields
---@field every? integer Blocks at a time; what goes into the first of them is kept. Default: 1.

---@class mpt.eval_fields
---@field every? integer Steps between evaluations; 0 evaluates at the end only. Default: 0.
---@field batches? integer Validation windows of each; at the end all, 200 at most. Default: 8.
---@field use? mpt.format|mpt.gemm Lays a precision of its own over fprop of all linear layers while it evaluates. Default: none.

---@class mpt.adamw_fields
---@field betas? { [1]: number, [2]: number } Decay of the first and of the second moment. Default: 0.9,0.95.
---@field eps? number Added to the root of the second moment. Default: 1e-8.
---@field weight_decay? number Decoupled: weights shrink by lr times this. Default: 0.1.

---@class mpt.sgd_fields
---@field momentum? number Decay of the velocity; 0 keeps none. Default: 0.
---@field weight_decay? number Decoupled: weights shrink by lr times this. Default: 0.

---@class mpt.constant_fields
---@field peak number The learning rate after warmup.
---@field warmup? number Linear from 0 to the peak: steps (tokens where the run is given in tokens), or a fraction of the run. Default: 0.

---@class mpt.linear_fields
---@field peak number The learning rate after warmup.
---@field final? number The learning rate at the end of the run. Default: 0.
---@field warmup? number Linear from 0 to the peak: steps (tokens where the run is given in tokens), or a fraction of the run. Default: 0.

---@class mpt.cosine_fields
---@field peak number The learning rate after warmup.
---@field final? number The learning rate at the end of the run. Default: 0.
---@field warmup? number Linear from 0 to the peak: steps (tokens where the run is given in tokens), or a fraction of the run. Default: 0.

---@class mpt.wsd_fields
---@field peak number The learning rate after warmup.
---@field final? number The learning rate at the end of the run. Default: 0.
---@field warmup? number Linear from 0 to the peak: steps (tokens where the run is given in tokens), or a fraction of the run. Default: 0.
---@field decay? number The last part of the run, from peak to final: as warmup. Default: 0.2.

---@class mpt.synthetic_fields
---@field seed? integer Another seed is another language. Default: 0.
---@field vocab? integer Words of the language, of which the model's vocabulary is made. Default: 128.

---@class mpt.text_fields
---@field [integer] string|mpt.file_fields As in `files`.
---@field path? string A file whose bytes are the tokens, or a glob. Default: this or files.
---@field files? (string|mpt.file_fields)[] Several files as one corpus; entries without a name mean the same. Default: this or path.
---@field order? "random"|"shuffle"|"sequential" In which order training takes the windows of its files. Default: random.
---@field remainder? "carry"|"step"|"drop" What becomes of the windows that fill no batch when an epoch ends. Default: carry.
---@field validation? number|string Held back for evaluation: this share of each file, at its end, or files of their own. Default: 0.1.

---@class mpt.tokens_fields
---@field [integer] string|mpt.file_fields As in `files`.
---@field path? string A file of nanoGPT's, a shard of llm.c's, or a pair of Megatron's; or a glob. Default: this or files.
---@field files? (string|mpt.file_fields)[] Several files as one corpus; entries without a name mean the same. Default: this or path.
---@field order? "random"|"shuffle"|"sequential" In which order training takes the windows of its files. Default: random.
---@field remainder? "carry"|"step"|"drop" What becomes of the windows that fill no batch when an epoch ends. Default: carry.
---@field validation? number|string Held back for evaluation: this share of each file, at its end, or files of their own. Default: 0.1.
---@field vocab? integer Words of the tokenizer: ids are below it. Default: this or the model's.

---@class mpt.batches_fields
---@field path string A safetensors file with int32 `tokens` [micro-batches, batch, sequence + 1]; its rows are taken in order.
---@field remainder? "carry"|"step"|"drop" What becomes of the windows that fill no batch when an epoch ends. Default: carry.
---@field vocab? integer Words of the tokenizer: ids are below it. Default: this or the model's.

---@class mpt.ops_fields
---@field softmax? mpt.format Probabilities as attention's second product reads them: exp(score - largest of its row) is rounded to this, its sum is not. Default: fp32.
---@field norm? mpt.format What norms put out; e4m3 and e5m2 are plain saturating casts. Default: precision.base.
---@field rmsnorm? mpt.format One kind of norm alone. Default: norm.
---@field layernorm? mpt.format One kind of norm alone. Default: norm.
---@field gated_rmsnorm? mpt.format One kind of norm alone. Default: norm.
---@field attention? mpt.format What attention reads (q, k, v and gradients) and puts out. Default: precision.base.
---@field conv? mpt.format What convolutions read (activations and gradients) and put out. Default: precision.base.
---@field conv1d? mpt.format The depthwise one alone. Default: conv.
---@field scan? mpt.format What state-space scans put out. Default: precision.base.
---@field ssm_scan? mpt.format That of Mamba-2 alone. Default: scan.
---@field cross_entropy? mpt.format Logits as the loss and its gradient read them; the loss itself is fp32. Default: fp32.
---@field embedding? mpt.format What tables give. Default: precision.state.residual.
---@field gelu? mpt.format What it puts out. Default: the widest input.
---@field silu? mpt.format What it puts out. Default: the widest input.
---@field relu2? mpt.format What it puts out. Default: the widest input.
---@field softplus? mpt.format What it puts out. Default: the widest input.
---@field swiglu? mpt.format What it puts out. Default: the widest input.
---@field rope? mpt.format What it puts out. Default: the widest input.
---@field add? mpt.format Sums other than the stream between blocks, which state.residual decides. Default: the widest input.
---@field mul? mpt.format Products of two activations. Default: the widest input.

---@class mpt.checkpoint_fields
---@field every? integer Attempted steps between checkpoints; 0 saves at the end only. Default: 0.
---@field keep? integer The newest so many stay, older ones are removed; 0 keeps all. Default: 2.

---@class mpt.watch_fields
---@field nonfinite? "skip"|"stop" What a gradient with NaN or Inf brings about, where no lower loss scale may cure it. Default: skip.
---@field max_skips? integer Skipped steps in a row that end a run, those not counted that a lower loss scale may cure. Default: 20.
---@field spike? mpt.spike_fields A loss or gradient norm that stands out. Default: warn at z = 24.

---@class mpt.spike_fields
---@field action? "off"|"warn"|"skip"|"rollback" What a spike brings about. Default: warn.
---@field window? integer Applied steps whose losses and gradient norms are compared with; at least 32 of them, or a whole window that is shorter. Default: 128.
---@field z? number Robust z-score (distance from the median in scaled median absolute deviations) from which a value is a spike. Default: 24.

---@class mpt.telemetry_fields
---@field every? integer Attempted steps between two counts of what every operand lost; 0 takes a hundredth of the run and at least 10: every 10th step up to 1,000 steps, then 100 times. Default: 0.

---@class mpt.file_fields
---@field path string A file, or a glob.
---@field weight? number How often a window of this file is taken for one of a file of weight 1: an epoch has it so many times. Default: 1.

---@class mpt.nn_linear_fields
---@field [integer] string|mpt.tensor
---@field out? integer width of the result; required, but a head takes the vocabulary and a tied layer the rows of its weight
---@field bias? boolean whether a bias is added; of moe to the scores that experts are chosen by; default false
---@field head? boolean whether this is the output projection, which rules select as `head`; default false
---@field tied? string the parameter that is used as weight, by its whole name or by that in the open block: `"wte.weight"`; it may be used any number of times; default a weight of its own
---@field layout? "conv1d" `"conv1d"`: the weight is stored `[in, out]`; default `[out, in]`
---@field parts? string[] names of the layers fused into this one; default none
---@field init? mpt.init initial weight: `{ normal = 0.02 }`, `{ uniform = 0.5 }`, `"zeros"` or `"ones"`; default normal 0.02, of norms ones, of conv1d uniform within 1/sqrt(kernel)
---@field bias_init? mpt.init initial bias, as `init`; default zeros, of conv1d uniform within 1/sqrt(kernel)

---@class mpt.nn_embedding_fields
---@field [integer] string|mpt.tensor
---@field out? integer width of the result; required, but a head takes the vocabulary and a tied layer the rows of its weight
---@field rows? integer rows of the table; default the vocabulary
---@field tied? string the parameter that is used as weight, by its whole name or by that in the open block: `"wte.weight"`; it may be used any number of times; default a weight of its own
---@field init? mpt.init initial weight: `{ normal = 0.02 }`, `{ uniform = 0.5 }`, `"zeros"` or `"ones"`; default normal 0.02, of norms ones, of conv1d uniform within 1/sqrt(kernel)

---@class mpt.nn_rmsnorm_fields
---@field [integer] string|mpt.tensor
---@field tied? string the parameter that is used as weight, by its whole name or by that in the open block: `"wte.weight"`; it may be used any number of times; default a weight of its own
---@field init? mpt.init initial weight: `{ normal = 0.02 }`, `{ uniform = 0.5 }`, `"zeros"` or `"ones"`; default normal 0.02, of norms ones, of conv1d uniform within 1/sqrt(kernel)
---@field eps? number added under the root; default 1e-5

---@class mpt.nn_layernorm_fields
---@field [integer] string|mpt.tensor
---@field bias? boolean whether a bias is added; of moe to the scores that experts are chosen by; default false
---@field tied? string the parameter that is used as weight, by its whole name or by that in the open block: `"wte.weight"`; it may be used any number of times; default a weight of its own
---@field init? mpt.init initial weight: `{ normal = 0.02 }`, `{ uniform = 0.5 }`, `"zeros"` or `"ones"`; default normal 0.02, of norms ones, of conv1d uniform within 1/sqrt(kernel)
---@field bias_init? mpt.init initial bias, as `init`; default zeros, of conv1d uniform within 1/sqrt(kernel)
---@field eps? number added under the root; default 1e-5

---@class mpt.nn_gated_rmsnorm_fields
---@field [integer] string|mpt.tensor
---@field init? mpt.init initial weight: `{ normal = 0.02 }`, `{ uniform = 0.5 }`, `"zeros"` or `"ones"`; default normal 0.02, of norms ones, of conv1d uniform within 1/sqrt(kernel)
---@field eps? number added under the root; default 1e-5
---@field groups? integer slices normalized each by itself, heads that share B and C, or groups of experts; default 1; required by ssm_scan

---@class mpt.nn_attention_fields
---@field [integer] string|mpt.tensor
---@field scale? number factor on the products of queries and keys, default 1/sqrt(head_dim); of moe on the weights of experts, default 1
---@field heads? integer how many heads; required, but rope takes head_dim instead too
---@field kv_heads? integer heads of keys and values, a divisor of heads; default as many as heads
---@field head_dim? integer width of a head; default the input's width over heads; required by ssm_scan

---@class mpt.nn_conv1d_fields
---@field [integer] string|mpt.tensor
---@field bias? boolean whether a bias is added; of moe to the scores that experts are chosen by; default false
---@field init? mpt.init initial weight: `{ normal = 0.02 }`, `{ uniform = 0.5 }`, `"zeros"` or `"ones"`; default normal 0.02, of norms ones, of conv1d uniform within 1/sqrt(kernel)
---@field bias_init? mpt.init initial bias, as `init`; default zeros, of conv1d uniform within 1/sqrt(kernel)
---@field kernel? integer tokens that one output sees; required

---@class mpt.nn_ssm_scan_fields
---@field [integer] string|mpt.tensor
---@field heads? integer how many heads; required, but rope takes head_dim instead too
---@field head_dim? integer width of a head; default the input's width over heads; required by ssm_scan
---@field groups? integer slices normalized each by itself, heads that share B and C, or groups of experts; default 1; required by ssm_scan
---@field state? integer size of a head's state; required

---@class mpt.nn_gelu_fields
---@field [integer] mpt.tensor
---@field exact? boolean by erf instead of tanh; default false

---@class mpt.nn_silu_fields
---@field [integer] mpt.tensor

---@class mpt.nn_relu2_fields
---@field [integer] mpt.tensor

---@class mpt.nn_softplus_fields
---@field [integer] mpt.tensor

---@class mpt.nn_swiglu_fields
---@field [integer] mpt.tensor

---@class mpt.nn_softmax_fields
---@field [integer] mpt.tensor

---@class mpt.nn_scale_fields
---@field [integer] mpt.tensor
---@field factor? number what x is multiplied by; required, not 0

---@class mpt.nn_dropout_fields
---@field [integer] string|mpt.tensor
---@field p? number share of the numbers that is set to zero, below 1; default 0, which makes no operation

---@class mpt.nn_rope_fields
---@field [integer] mpt.tensor
---@field heads? integer how many heads; required, but rope takes head_dim instead too
---@field head_dim? integer width of a head; default the input's width over heads; required by ssm_scan
---@field theta? number pair i of a head turns by theta^(-2 i / rotary_dim) a token; default 10000
---@field rotary_dim? integer numbers of a head that turn, the first ones, an even number; default head_dim
---@field scaling? table slower turns for longer sequences, as `rope_parameters` of a `config.json`: `{ rope_type = "linear", factor = 4 }` or `{ rope_type = "llama3", factor = 8, low_freq_factor = 1, high_freq_factor = 4, original_max_position_embeddings = 8192 }`; a `rope_theta` in it is the default of theta

---@class mpt.nn_add_fields
---@field [integer] mpt.tensor

---@class mpt.nn_mul_fields
---@field [integer] mpt.tensor

---@class mpt.nn_split_fields
---@field [integer] mpt.tensor
---@field sizes? integer[] widths of the parts; required

---@class mpt.nn_concat_fields
---@field [integer] mpt.tensor

---@class mpt.nn_cross_entropy_fields
---@field [integer] mpt.tensor

---@class mpt.nn_moe_fields
---@field [integer] string|mpt.tensor
---@field bias? boolean whether a bias is added; of moe to the scores that experts are chosen by; default false
---@field init? mpt.init initial weight: `{ normal = 0.02 }`, `{ uniform = 0.5 }`, `"zeros"` or `"ones"`; default normal 0.02, of norms ones, of conv1d uniform within 1/sqrt(kernel)
---@field scale? number factor on the products of queries and keys, default 1/sqrt(head_dim); of moe on the weights of experts, default 1
---@field groups? integer slices normalized each by itself, heads that share B and C, or groups of experts; default 1; required by ssm_scan
---@field experts? integer how many routed experts; required
---@field top_k? integer experts that a token goes to; required
---@field hidden? integer width inside an expert; required
---@field activation? "relu2"|"swiglu" `"relu2"`: down_proj(relu2(up_proj x)); `"swiglu"`: down_proj(silu(gate_proj x) * up_proj x); default relu2
---@field score? "sigmoid"|"softmax" what weighs experts: `"sigmoid"` or `"softmax"` of the router's logits; default sigmoid
---@field normalize? boolean whether the weights of a token's experts sum up to 1, before scale; default false
---@field top_groups? integer groups that a token may choose from, the best by the sum of their two best scores; default all
---@field balance? number how far the bias moves after each applied step, up where an expert got fewer tokens than the mean; needs bias = true; from 0 to 1, default 0
---@field align? integer the rows of an expert fill a multiple of this, so that blocks and rotations along tokens stay inside an expert; default 32
---@field down_init? mpt.init initial weight of down_proj, as `init`; default init

---Draws the forward pass, one operation a word.
---@class mpt.nn
---@field linear fun(fields: mpt.nn_linear_fields): mpt.tensor y = x w^T + b: x, w, [bias], [x factor], [w factor], [offsets of experts] -> y
---@field embedding fun(fields: mpt.nn_embedding_fields): mpt.tensor rows of a table: ids, table -> x
---@field rmsnorm fun(fields: mpt.nn_rmsnorm_fields): mpt.tensor x, weight -> y
---@field layernorm fun(fields: mpt.nn_layernorm_fields): mpt.tensor x, weight, [bias] -> y
---@field gated_rmsnorm fun(fields: mpt.nn_gated_rmsnorm_fields): mpt.tensor grouped RMSNorm of x * silu(z): x, z, weight -> y
---@field attention fun(fields: mpt.nn_attention_fields): mpt.tensor causal, grouped-query, behind rope where q and k have positions: q, k, v -> o, log-sum-exp
---@field conv1d fun(fields: mpt.nn_conv1d_fields): mpt.tensor depthwise causal convolution: x, weight, [bias] -> y
---@field ssm_scan fun(fields: mpt.nn_ssm_scan_fields): mpt.tensor Mamba-2: x, B, C, dt, A_log, D, dt_bias -> y, states
---@field gelu fun(fields: mpt.nn_gelu_fields|mpt.tensor, ...: mpt.tensor): mpt.tensor x * Phi(x), by tanh or erf
---@field silu fun(fields: mpt.nn_silu_fields|mpt.tensor, ...: mpt.tensor): mpt.tensor x * sigmoid(x)
---@field relu2 fun(fields: mpt.nn_relu2_fields|mpt.tensor, ...: mpt.tensor): mpt.tensor max(x, 0)^2
---@field softplus fun(fields: mpt.nn_softplus_fields|mpt.tensor, ...: mpt.tensor): mpt.tensor log(1 + exp(x))
---@field swiglu fun(fields: mpt.nn_swiglu_fields|mpt.tensor, ...: mpt.tensor): mpt.tensor silu(gate) * up: gate, up -> y
---@field softmax fun(fields: mpt.nn_softmax_fields|mpt.tensor, ...: mpt.tensor): mpt.tensor exp(x) over its sum, row by row
---@field scale fun(fields: mpt.nn_scale_fields|mpt.tensor, ...: mpt.tensor): mpt.tensor factor * x
---@field dropout fun(fields: mpt.nn_dropout_fields): mpt.tensor a share p of x to zero, the rest times 1 / (1 - p); keyed bits
---@field rope fun(fields: mpt.nn_rope_fields|mpt.tensor, ...: mpt.tensor): mpt.tensor rotary positions: halves of each head turned by angles of its token
---@field add fun(fields: mpt.nn_add_fields|mpt.tensor, ...: mpt.tensor): mpt.tensor a + b
---@field mul fun(fields: mpt.nn_mul_fields|mpt.tensor, ...: mpt.tensor): mpt.tensor a * b
---@field split fun(fields: mpt.nn_split_fields|mpt.tensor, ...: mpt.tensor): mpt.tensor ... columns into parts
---@field concat fun(fields: mpt.nn_concat_fields|mpt.tensor, ...: mpt.tensor): mpt.tensor parts into columns
---@field cross_entropy fun(fields: mpt.nn_cross_entropy_fields|mpt.tensor, ...: mpt.tensor) mean over targets: logits, targets -> loss
---@field moe fun(fields: mpt.nn_moe_fields): mpt.tensor mixture of experts, without a shared one: x -> y
---@field tokens fun(): mpt.tensor the batch's token ids
---@field positions fun(): mpt.tensor the position of each token
---@field vocab fun(): integer how many words the data has
---@field sequence fun(): integer tokens a sequence
---@field block fun(i: integer, draw: fun(): ...): ... layers drawn by the function belong to block `i`, from 0; gives what it returns

---@class mpt.model_fields
---@field name string What messages and the plan call it. Required.
---@field sizes table<string, table> Tables by the name of the size; what is in them is the model's own. Required.
---@field graph fun(nn: mpt.nn, size: table) The function that draws: of `nn` and of the size. Required.
---@field root? string What paths of blocks begin with: `"h"` gives `h.0.`. Default `"layers"`.
---@field prefix? string What names of its tensors begin with in checkpoints: `"transformer."`. Default nothing. Files with another root are read all the same.
---@field defaults? table<string, any> Fields that a size may leave out, with what they are then: `{ layer_norm_epsilon = 1e-5 }`. Default none.
---@field only? table<string, any> Fields that change what is computed, with the values that the model has, one or a list: `{ hidden_act = "silu" }`. Another one is refused. Default none.
---@field config? fun(fields: table, of_file: boolean): string? A function that rewrites other spellings in a table of fields, of a size or of a config.json (the second argument tells which: true of a file), and gives a text where they cannot be. Default none.

---@class mpt.current

---A scale from the tensor at hand.
---@param fields table
---@return mpt.current
function current(fields) end

---@class mpt.delayed: mpt.delayed_fields

---A scale from the magnitudes of earlier steps. The first step, which has none, takes its own.
---@param fields mpt.delayed_fields
---@return mpt.delayed
function delayed(fields) end

---@class mpt.four_over_six: mpt.four_over_six_fields

---Each block takes the better of two scales: its largest element becomes 6, or 4.
---@param fields mpt.four_over_six_fields
---@return mpt.four_over_six
function four_over_six(fields) end

---@class mpt.hadamard: mpt.hadamard_fields

---A rotation along the dot product before quantizing, on both operands of a GEMM.
---@param fields mpt.hadamard_fields
---@return mpt.hadamard
function hadamard(fields) end

---@class mpt.gemm: mpt.gemm_fields

---The precision of a linear layer: three products, two operands each.
---@param fields mpt.gemm_fields
---@return mpt.gemm
function gemm(fields) end

---@class mpt.precision: mpt.precision_fields

---Which format holds what.
---@param fields mpt.precision_fields
---@return mpt.precision
function precision(fields) end

---@class mpt.rule: mpt.rule_fields

---What layers of a kind or a path use; a later rule wins over an earlier one.
---@param fields mpt.rule_fields
---@return mpt.rule
function rule(fields) end

---@class mpt.phase: mpt.phase_fields

---A part of the run with a precision of its own, over the same weights.
---@param fields mpt.phase_fields
---@return mpt.phase
function phase(fields) end

---`first(2)`: the first 2
---@param a integer
---@return mpt.blocks
function first(a) end

---`last(8)`: the last 8
---@param a integer
---@return mpt.blocks
function last(a) end

---`range(2, 5)`: 2, 3, 4 and 5: both ends count
---@param a integer
---@param b integer
---@return mpt.blocks
function range(a, b) end

---`every(4)`: 0, 4, 8 and so on
---@param a integer
---@return mpt.blocks
function every(a) end

---`last_fraction(0.15)`: the last 15 %, rounded up to whole blocks
---@param a number
---@return mpt.blocks
function last_fraction(a) end

---`only { 3, 7 }`: 3 and 7
---@param fields integer[]
---@return mpt.blocks
function only(fields) end

---@class mpt.adamw: mpt.adamw_fields

---Adam with decoupled weight decay.
---@param fields mpt.adamw_fields
---@return mpt.adamw
function adamw(fields) end

---@class mpt.sgd: mpt.sgd_fields

---Stochastic gradient descent.
---@param fields mpt.sgd_fields
---@return mpt.sgd
function sgd(fields) end

---@class mpt.constant: mpt.constant_fields

---The peak, after warmup.
---@param fields mpt.constant_fields
---@return mpt.constant
function constant(fields) end

---@class mpt.linear: mpt.linear_fields

---From the peak to final in a line.
---@param fields mpt.linear_fields
---@return mpt.linear
function linear(fields) end

---@class mpt.cosine: mpt.cosine_fields

---From the peak to final in half a cosine.
---@param fields mpt.cosine_fields
---@return mpt.cosine
function cosine(fields) end

---@class mpt.wsd: mpt.wsd_fields

---Warmup, stable, decay.
---@param fields mpt.wsd_fields
---@return mpt.wsd
function wsd(fields) end

---@class mpt.static

---A loss scale, or a quantizer's scale, that stays.
---@param a number
---@return mpt.static
function static(a) end

---@class mpt.dynamic: mpt.dynamic_fields

---A loss scale that falls where gradients overflow and grows again where they do not.
---@param fields mpt.dynamic_fields
---@return mpt.dynamic
function dynamic(fields) end

---@class mpt.text

---The bytes of files.
---@param a string|mpt.text_fields
---@return mpt.text
function text(a) end

---@class mpt.tokens

---The ids of token files; which of the formats each has, its content says.
---@param a string|mpt.tokens_fields
---@return mpt.tokens
function tokens(a) end

---@class mpt.batches

---Batches that were cut before; what the run leaves over is its validation.
---@param a string|mpt.batches_fields
---@return mpt.batches
function batches(a) end

---@class mpt.synthetic: mpt.synthetic_fields

---An endless language with grammar and repeats, whose entropy is known.
---@param fields mpt.synthetic_fields
---@return mpt.synthetic
function synthetic(fields) end

---@class mpt.recipe: mpt.recipe_fields

---One training run, declared.
---@param fields mpt.recipe_fields
---@return mpt.recipe
function recipe(fields) end

---In derive: takes the place of the old table or list.
---@param fields table
---@return any
function replace(fields) end

---A family of models: how one is drawn, and its sizes.
---@class mpt.model_word
---@overload fun(fields: mpt.model_fields): mpt.model
---@field from_config fun(path: string, changes?: table): mpt.model_size The model that a Hugging Face config.json describes; changes replace its fields.

---@type mpt.model_word
model = nil

---fp32 elements of 32 bits, without a scale
---@type mpt.format
fp32 = nil

---tf32 elements of 32 bits, without a scale
---@type mpt.format
tf32 = nil

---bf16 elements of 16 bits, without a scale
---@type mpt.format
bf16 = nil

---fp16 elements of 16 bits, without a scale
---@type mpt.format
fp16 = nil

---e4m3 elements of 8 bits, one scale a tensor
---@type mpt.format
e4m3 = nil

---e5m2 elements of 8 bits, one scale a tensor
---@type mpt.format
e5m2 = nil

---e5m6 elements of 12 bits, one scale a tensor
---@type mpt.format
e5m6 = nil

---e3m2 elements of 6 bits, one scale a tensor
---@type mpt.format
e3m2 = nil

---e2m3 elements of 6 bits, one scale a tensor
---@type mpt.format
e2m3 = nil

---e2m1 elements of 4 bits, one scale a tensor
---@type mpt.format
e2m1 = nil

---int8 elements of 8 bits, one scale a tensor
---@type mpt.format
int8 = nil

---e4m3 elements of 8 bits, scaled in blocks
---@type mpt.format
mxfp8 = nil

---e3m2 elements of 6 bits, scaled in blocks
---@type mpt.format
mxfp6 = nil

---e2m1 elements of 4 bits, scaled in blocks
---@type mpt.format
mxfp4 = nil

---e2m1 elements of 4 bits, scaled in blocks
---@type mpt.format
nvfp4 = nil

---e4m3 elements of 8 bits, scaled in blocks
---@type mpt.format
fp8_block = nil

---a format of scales only: powers of two
---@type mpt.format
e8m0 = nil

---Whole precision methods.
---@class mpt.presets
---@field fp32 mpt.precision Everything in single precision: norms and the residual stream too.
---@field tf32 mpt.precision Operands of linear layers rounded to TF32, all else in single precision.
---@field fp16 mpt.precision FP16 over FP32 master weights, under a loss scale that finds itself (arXiv 1710.03740).
---@field bf16 mpt.precision BF16 over FP32 master weights and gradients (arXiv 1905.12322).
---@field fp8_delayed mpt.precision E4M3 forward, E5M2 for gradients, scales from the steps before (DelayedScaling of Transformer Engine).
---@field fp8_current mpt.precision E4M3 forward, E5M2 for gradients, one current scale a tensor (Float8CurrentScaling of Transformer Engine).
---@field deepseek_v3 mpt.precision E4M3 everywhere, a scale for each 128 elements and 128x128 weights, sums promoted every 128 products, moments in BF16 (arXiv 2412.19437).
---@field mxfp8 mpt.precision MXFP8 in all three products, E4M3 for gradients too (arXiv 2506.08027).
---@field mxfp4 mpt.precision MXFP4 in all three products: 32x32 weights, stochastic gradients, wgrad rotated by 32 (the counterpart in arXiv 2509.25149).
---@field nvfp4 mpt.precision NVFP4 in all three products: 16x16 weights, stochastic gradients, wgrad rotated by 16 (arXiv 2509.25149). No block is kept higher.

---@type mpt.presets
presets = nil

---A changed copy: tables merge field by field, rules are appended, all else is replaced.
---@generic T
---@param base T
---@param changes table
---@return T
function derive(base, changes) end
