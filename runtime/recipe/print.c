/* The recipe as canonical text, and the hash of it.
 *
 * One field a line, in the order of the schema, of everything that decides numbers: a recipe
 * from Lua and one that a host filled by calls are equal exactly if their texts are. The text
 * is also what --dump=freeze shows. */
#include "recipe/schema_store.h"
#include "recipe/select.h"
#include "recipe/use.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- formats and rules ---- */

static void print_slot(const mpt_slot_use *use, mpt_str *out) {
    char text[MPT_QUANTIZER_TEXT];
    mpt_slot_use_text(use, text);
    mpt_str_printf(out, "%s", text);
}

static void print_sums(const mpt_use *use, const char *path, mpt_str *out) {
    for (int g = 0; g < MPT_GEMM_COUNT; g++) {
        const char *gemm = mpt_gemm_name((mpt_gemm)g);
        if (use->has_accumulate[g])
            mpt_str_printf(out, "%s.use.%s.accumulate = %s\n", path, gemm,
                           mpt_dtype_name(use->accumulate[g]));
        if (use->has_promote[g])
            mpt_str_printf(out, "%s.use.%s.promote = %d\n", path, gemm, (int)use->promote[g]);
    }
}

static void print_rule(const mpt_cascade_rule *cascade_rule, mpt_str *out) {
    const mpt_rule *rule = cascade_rule->rule;
    char path[MPT_RULE_PATH];
    mpt_rule_path(cascade_rule, path);
    mpt_str_printf(out, "%s.select =", path);
    for (int i = 0; i < rule->n_selectors; i++)
        mpt_str_printf(out, " %s", rule->selectors[i]);
    mpt_str_printf(out, "\n%s.blocks = ", path);
    mpt_blocks_print(&rule->blocks, out);
    mpt_str_printf(out, "\n%s.gemms =", path);
    for (int g = 0; g < MPT_GEMM_COUNT; g++)
        if (!rule->gemms || rule->gemms >> g & 1)
            mpt_str_printf(out, " %s", mpt_gemm_name((mpt_gemm)g));
    mpt_str_printf(out, "\n");
    if (rule->predicate >= 0)
        mpt_str_printf(out, "%s.where = function\n", path);
    if (rule->use.bare) {
        mpt_str_printf(out, "%s.use = ", path);
        print_slot(&rule->use.slot[0], out);
        mpt_str_printf(out, "\n");
        return;
    }
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        if (!rule->use.slot[s].has_format && !rule->use.slot[s].set)
            continue;
        mpt_str_printf(out, "%s.use.%s = ", path, mpt_slot_name((mpt_slot)s));
        print_slot(&rule->use.slot[s], out);
        mpt_str_printf(out, "\n");
    }
    for (int g = 0; g < MPT_GEMM_COUNT; g++)
        if (rule->use.has_output[g])
            mpt_str_printf(out, "%s.use.%s.output = %s\n", path, mpt_gemm_name((mpt_gemm)g),
                           mpt_dtype_name(rule->use.output[g]));
    print_sums(&rule->use, path, out);
}

static void print_lift(const mpt_rule *lift, mpt_str *out) {
    mpt_str_printf(out, "precision.lift =");
    for (int i = 0; i < lift->n_selectors; i++)
        mpt_str_printf(out, " %s", lift->selectors[i]);
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        if (lift->lift >> s & 1)
            mpt_str_printf(out, " %s", mpt_slot_name((mpt_slot)s));
    mpt_str_printf(out, "\n");
}

/* ---- fields ---- */

static void print_span(const mpt_span *span, mpt_str *out) {
    mpt_str_printf(out, "%.17g%s", span->value, span->fraction ? " of the run" : "");
}

static void print_part(const mpt_part *part, mpt_str *out) {
    if (part->path)
        mpt_str_printf(out, "%s\n", part->path);
    else
        mpt_str_printf(out, "%.17g\n", part->share);
}

static const char *choice_name(const mpt_field *field, int64_t value) {
    for (const mpt_choice *c = field->choices; c->name; c++)
        if (c->value == value)
            return c->name;
    return "default";
}

static void print_record(const mpt_record *record, const void *object, const char *path,
                         mpt_str *out);

/* A record inside another: the word of it, and the fields that the word has. */
static void print_inner(const mpt_field *field, const void *member, const char *path,
                        mpt_str *out) {
    char inner_path[128];
    const char *word = field->choices ? mpt_field_word(field, member) : NULL;
    const mpt_record *inner = mpt_field_record(field, member);
    mpt_str_printf(out, "%s\n", word ? word : inner->name);
    if (word)
        return;
    snprintf(inner_path, sizeof inner_path, "%s.%s", path, field->name);
    print_record(inner, member, inner_path, out);
}

/* One row and its value. `member` is aligned for the row's type: it is a member of a struct. */
static void print_field(const mpt_field *field, const void *member, const char *path,
                        mpt_str *out) {
    int64_t integer = 0;
    int32_t narrow = 0;
    double numbers[2] = {0, 0};
    mpt_str_printf(out, "%s.%s = ", path, field->name);
    switch (field->type) {
    case MPT_FIELD_INT:
    case MPT_FIELD_CHOICE:
    case MPT_FIELD_FORMAT:
        memcpy(&narrow, member, sizeof narrow);
        integer = narrow;
        if (field->bytes == sizeof integer)
            memcpy(&integer, member, sizeof integer);
        if (field->choices)
            mpt_str_printf(out, "%s\n", choice_name(field, integer));
        else
            mpt_str_printf(out, "%" PRId64 "\n", integer);
        return;
    case MPT_FIELD_NUMBER:
    case MPT_FIELD_PAIR:
        memcpy(numbers, member, field->bytes);
        mpt_str_printf(out, "%.17g", numbers[0]);
        if (field->type == MPT_FIELD_PAIR)
            mpt_str_printf(out, " %.17g", numbers[1]);
        mpt_str_printf(out, "\n");
        return;
    case MPT_FIELD_SPAN:
        print_span(member, out);
        mpt_str_printf(out, "\n");
        return;
    case MPT_FIELD_PART:
        print_part(member, out);
        return;
    case MPT_FIELD_STRING:
        mpt_str_printf(out, "%s\n",
                       *(const char *const *)member ? *(const char *const *)member : "");
        return;
    default:
        print_inner(field, member, path, out);
        return;
    }
}

/* Whether a member is as its row's default leaves it. */
static bool has_default(const mpt_field *field, const void *member) {
    mpt_part initial = {0, NULL}; /* the largest of late members, aligned for all */
    mpt_setting value;
    mpt_setting_parse(field, field->by_default, &value);
    (void)mpt_field_store(field, &initial, &value);
    return memcmp(&initial, member, field->bytes) == 0;
}

/* Rows that decide no number of a run that goes well; and rows that came later than hashes did,
 * which are printed where they say something. */
static bool is_left_out(const mpt_field *field, const void *member) {
    if (field->record == &mpt_record_checkpoint || field->record == &mpt_record_watch ||
        field->record == &mpt_record_telemetry)
        return true;
    if (field->record == &mpt_record_recompute)
        return ((const mpt_recompute *)member)->every == 0;
    return field->late && has_default(field, member);
}

/* All rows of a record that have a member of their own; eval, a view, decides no numbers. */
static void print_record(const mpt_record *record, const void *object, const char *path,
                         mpt_str *out) {
    for (int i = 0; i < record->n_fields; i++) {
        const mpt_field *field = &record->fields[i];
        if (field->offset == SIZE_MAX || !field->bytes)
            continue;
        const void *member = (const char *)object + field->offset;
        if (!is_left_out(field, member))
            print_field(field, member, path, out);
    }
}

/* ---- the whole ---- */

/* Formats of the state, where they are not FP32. */
static void print_state(const mpt_state_formats *formats, mpt_str *out) {
    mpt_state_format state;
    char text[MPT_QUANTIZER_TEXT];
    for (int i = 0; mpt_state_format_at(formats, i, &state); i++) {
        mpt_quantizer_text(&state.q, text);
        if (state.q.format != MPT_DTYPE_FP32)
            mpt_str_printf(out, "precision.state.%s = %s\n", state.name, text);
    }
}

static void print_model(const char *word, const mpt_model_ref *model, mpt_str *out) {
    if (model->present)
        mpt_str_printf(out, "%s = %s %s\n", word, model->name, model->size);
    if (model->present && model->fields)
        mpt_str_printf(out, "%s\n", model->fields);
}

/* What a word means where it is not said and no wider word is either; COUNT: it depends on what
 * goes into the op. */
static mpt_dtype default_of(mpt_ops_word word, mpt_dtype base) {
    switch (word) {
    case MPT_OPS_SOFTMAX:
    case MPT_OPS_CROSS_ENTROPY:
        return MPT_DTYPE_FP32;
    case MPT_OPS_NORM:
    case MPT_OPS_ATTENTION:
    case MPT_OPS_CONV:
    case MPT_OPS_SCAN:
        return base;
    default:
        return MPT_DTYPE_COUNT;
    }
}

/* What differs from the table: a row that says its default is the same recipe. */
static void print_ops(const mpt_recipe *recipe, mpt_dtype base, mpt_str *out) {
    for (int i = 0; i < MPT_OPS_COUNT; i++) {
        mpt_dtype format = recipe->ops[i].format;
        if (format != MPT_DTYPE_COUNT && format != default_of((mpt_ops_word)i, base))
            mpt_str_printf(out, "precision.ops.%s = %s\n", mpt_ops_word_name((mpt_ops_word)i),
                           mpt_dtype_name(format));
    }
    if (recipe->activation != MPT_DTYPE_COUNT)
        mpt_str_printf(out, "precision.state.activation = %s\n",
                       mpt_dtype_name(recipe->activation));
}

/* The same start is the same text: steps = 500 is from = 500, and 0 is 0 however written. */
static void print_start(const mpt_phase *phase, mpt_str *out) {
    const char *word = mpt_phase_start_word(phase);
    mpt_span from = {phase->from, phase->from_is_fraction};
    bool in_tokens = strcmp(word, "tokens") == 0;
    if (in_tokens || strcmp(word, "steps") == 0)
        from = (mpt_span){in_tokens ? phase->tokens : (double)phase->steps, false};
    if (from.value == 0)
        from.fraction = false;
    print_span(&from, out);
    mpt_str_printf(out, "%s\n", in_tokens && from.value > 0 ? " tokens" : "");
}

static void print_phase(const mpt_recipe *recipe, int index, mpt_str *out) {
    mpt_phase *phase = &recipe->phases[index];
    mpt_str_printf(out, "phases[%d] = %s\nphases[%d].from = ", index + 1, phase->name,
                   index + 1);
    print_start(phase, out);
    if (phase->by == MPT_BY_APPLIED)
        mpt_str_printf(out, "phases[%d].by = applied\n", index + 1);
    if (phase->warm_histories)
        mpt_str_printf(out, "phases[%d].warm_histories = true\n", index + 1);
    for (int i = 0; i < phase->n_rules; i++)
        print_rule(&(mpt_cascade_rule){&phase->rules[i], index, i}, out);
}

static void print_loss_scale(const mpt_loss_scale *scale, mpt_str *out) {
    if (scale->kind != MPT_LOSS_SCALE_DYNAMIC) {
        mpt_str_printf(out, "precision.loss_scale = %.17g\n",
                       scale->kind == MPT_LOSS_SCALE_STATIC ? scale->scale : 0);
        return;
    }
    mpt_str_printf(out, "precision.loss_scale = dynamic\n");
    print_record(&mpt_record_dynamic, scale, "precision.loss_scale", out);
}

void mpt_recipe_canonical(const mpt_recipe *recipe, mpt_str *out) {
    mpt_dtype base = recipe->base == MPT_DTYPE_COUNT ? MPT_DTYPE_BF16 : recipe->base;
    mpt_dtype residual =
        recipe->residual == MPT_DTYPE_COUNT ? mpt_stored_format(base) : recipe->residual;
    print_model("model", &recipe->model, out);
    print_model("proxy", &recipe->proxy, out);
    mpt_str_printf(out, "precision.base = %s\n", mpt_dtype_name(base));
    mpt_str_printf(out, "precision.state.residual = %s\n", mpt_dtype_name(residual));
    print_ops(recipe, base, out);
    print_state(&recipe->state, out);
    print_loss_scale(&recipe->loss_scale, out);
    for (int i = 0; i < recipe->n_rules; i++)
        print_rule(&(mpt_cascade_rule){&recipe->rules[i], -1, i}, out);
    for (int i = 0; i < recipe->n_phases; i++)
        print_phase(recipe, i, out);
    for (int i = 0; i < recipe->n_lifts; i++)
        print_lift(&recipe->lifts[i], out);
    for (int proxy = 0; proxy <= recipe->proxy.present; proxy++) {
        mpt_train train = mpt_recipe_train(recipe, proxy);
        if (train.epochs > 0) /* how many steps they are is up to the data */
            train.steps = 0;
        print_record(&mpt_record_train, &train, proxy ? "train.proxy" : "train", out);
    }
    const mpt_record *data = mpt_data_records[recipe->data.kind];
    mpt_str_printf(out, "data = %s\n", data->name);
    print_record(data, &recipe->data, "data", out);
    for (int i = 0; i < recipe->data.n_files; i++)
        mpt_str_printf(out, "data.files[%d] = %s, %.17g\n", i + 1, recipe->data.files[i].path,
                       recipe->data.files[i].weight);
}

mpt_status mpt_recipe_hash(const mpt_recipe *recipe, char out[17]) {
    mpt_str text;
    mpt_str_init(&text, recipe->ctx);
    mpt_recipe_canonical(recipe, &text);
    mpt_status status = text.failed ? MPT_OUT_OF_MEMORY : MPT_OK;
    if (status == MPT_OK)
        snprintf(out, 17, "%016" PRIx64, mpt_hash(text.data, text.len));
    mpt_str_deinit(&text);
    return status;
}
