/* What to do about the damage: what to repair in the checkpoint, and for each format the rules
 * that keep the damaged matrices in BF16.
 *
 * A rule names the layer of a tensor and no other: the name goes into a Lua text, and what a
 * glob would take for a pattern is put in brackets. */
#include <math.h>
#include <string.h>

#include "recipe/select.h"
#include "tools/probe.h"

enum {
    MOST_LINES = 12,  /* most rules, or matrices to repair, that are listed */
    NAME_COLUMNS = 60 /* of a name in a sentence */
};

/* ---- the checkpoint itself ---- */

static void put_repair(const mpt_probe *probe, const mpt_probe_line *line, mpt_str *out) {
    mpt_str_printf(out, "  ");
    mpt_probe_name(out, line->name, NAME_COLUMNS);
    mpt_str_printf(out, ": %llu", (unsigned long long)line->nonfinite);
    for (int f = 0; f < probe->n_formats; f++) {
        const mpt_probe_cell *cell = &line->cells[f];
        if (cell->destroyed)
            mpt_str_printf(out, "; %s destroys %llu others (%s)", probe->formats[f].text,
                           (unsigned long long)cell->destroyed,
                           mpt_probe_percent(mpt_probe_share(cell, cell->destroyed)).text);
    }
    mpt_str_printf(out, "\n");
}

static void put_repairs(const mpt_probe *probe, mpt_str *out) {
    int n = 0;
    for (int i = 0; i < probe->n_lines; i++) {
        if (!probe->lines[i].nonfinite)
            continue;
        if (n == 0)
            mpt_str_printf(out,
                           "\nThe checkpoint holds NaN or Inf, which no rule helps: repair "
                           "it. Such values:\n");
        if (n++ < MOST_LINES)
            put_repair(probe, &probe->lines[i], out);
    }
    if (n > MOST_LINES)
        mpt_str_printf(out, "  and in %d more\n", n - MOST_LINES);
}

/* ---- rules ---- */

/* A span of a tensor's name. */
typedef struct layer_name {
    const char *text;
    size_t length;
} layer_name;

/* The path by which a rule finds the layer: without the root of the checkpoint, and without the
 * parameter's own name. */
static layer_name layer_of(const char *tensor) {
    static const char *const roots[] = {"model.", "transformer.", "backbone."};
    static const char suffix[] = ".weight";
    layer_name name = {tensor, strlen(tensor)};
    size_t tail = sizeof suffix - 1;
    for (size_t i = 0; i < MPT_COUNT(roots); i++) {
        size_t n = strlen(roots[i]);
        if (strncmp(tensor, roots[i], n) == 0 && name.length > n) {
            name.text += n;
            name.length -= n;
            break;
        }
    }
    if (name.length >= tail && strcmp(name.text + name.length - tail, suffix) == 0)
        name.length -= tail;
    return name;
}

/* Whether the name alone would be read as a kind of layers. */
static bool is_kind(layer_name name) {
    char word[32];
    if (name.length >= sizeof word)
        return false;
    memcpy(word, name.text, name.length);
    word[name.length] = 0;
    return mpt_selector_kind(word) != MPT_LAYER_KIND_COUNT;
}

/* One character of a selector as a Lua text says it. */
static void put_char(char c, bool bracket, mpt_str *out) {
    unsigned char u = (unsigned char)c;
    if (bracket)
        mpt_str_printf(out, "[%c]", c);
    else if (c == '"' || c == '\\')
        mpt_str_printf(out, "\\%c", c);
    else if (u < 0x20 || u == 0x7f)
        mpt_str_printf(out, "\\%03d", (int)u);
    else
        mpt_str_append(out, &c, 1);
}

static void put_reason(const mpt_probe_cell *cell, mpt_str *out) {
    if (cell->damage == MPT_DAMAGE_NOISE)
        mpt_str_printf(out, " -- %s dB\n", mpt_probe_db(cell->sqnr).text);
    else if (cell->damage == MPT_DAMAGE_LOST)
        mpt_str_printf(out, " -- %s lost\n",
                       mpt_probe_percent(mpt_probe_share(cell, cell->counts.underflow)).text);
    else
        mpt_str_printf(out, " -- %llu values become NaN or Inf\n",
                       (unsigned long long)cell->destroyed);
}

static void put_rule(const mpt_probe_line *line, int f, mpt_str *out) {
    layer_name name = layer_of(line->tensor->name);
    bool kind = is_kind(name);
    if (name.length == 0) {
        mpt_str_printf(out, "  -- the tensor without a name: no rule can name it\n");
        return;
    }
    mpt_str_printf(out, "  rule { \"");
    for (size_t i = 0; i < name.length; i++)
        put_char(name.text[i], strchr("*?[{", name.text[i]) || (kind && i == 0), out);
    mpt_str_printf(out, "\", use = bf16 },");
    put_reason(&line->cells[f], out);
}

/* Whether the layer is one that a model may compute in one product with others. */
static bool may_be_fused(const char *tensor) {
    static const char *const parts[] = {"q_proj", "k_proj", "v_proj"};
    layer_name name = layer_of(tensor);
    for (size_t i = 0; i < MPT_COUNT(parts); i++) {
        size_t n = strlen(parts[i]);
        if (name.length >= n && memcmp(name.text + name.length - n, parts[i], n) == 0)
            return true;
    }
    return false;
}

static void put_rules(const mpt_probe *probe, int f, mpt_str *out) {
    int n = 0;
    bool fused = false;
    for (int i = 0; i < probe->n_lines; i++) {
        const mpt_probe_line *line = &probe->lines[i];
        mpt_probe_damage damage = line->cells[f].damage;
        if (damage == MPT_DAMAGE_NONE || damage == MPT_DAMAGE_INPUT)
            continue;
        fused = fused || may_be_fused(line->tensor->name);
        if (n++ < MOST_LINES)
            put_rule(line, f, out);
    }
    if (n > MOST_LINES)
        mpt_str_printf(out, "  and %d more; --json has all\n", n - MOST_LINES);
    if (fused)
        mpt_str_printf(out,
                       "  (A model may compute q_proj, k_proj and v_proj in one product; the "
                       "rule then names\n  that layer: \"layers.3.mixer.qkv_proj\".)\n");
}

/* ---- verdicts ---- */

static void put_medians(const mpt_probe_verdict *v, mpt_str *out) {
    if (!isnan(v->sqnr))
        mpt_str_printf(out, " (median %s dB, %s lost)", mpt_probe_db(v->sqnr).text,
                       mpt_probe_percent(v->lost).text);
}

static void put_verdict(const mpt_probe *probe, int f, mpt_str *out) {
    const mpt_probe_verdict *v = &probe->verdict[f];
    mpt_str_printf(out, "%s: ", probe->formats[f].text);
    if (v->fails) {
        mpt_str_printf(
            out,
            "every matrix loses more than %.0f%%, is below %.0f dB, or becomes NaN or "
            "Inf:\n  the format does not fit these weights, no rule helps",
            100 * MPT_PROBE_LOST, MPT_PROBE_FAILING);
    } else if (v->n_damaged == 0) {
        mpt_str_printf(out, "%s",
                       v->n_judged ? "none needs a rule" : "there is nothing to judge");
    } else {
        mpt_str_printf(out, "%d %s", v->n_damaged,
                       v->n_damaged == 1 ? "matrix stands out" : "matrices stand out");
    }
    put_medians(v, out);
    if (v->fails || v->n_damaged == 0)
        mpt_str_printf(out, ".\n");
    else if (f > 0)
        mpt_str_printf(out, "; the rules are printed where it is the first format.\n");
    else
        mpt_str_printf(out, "; rules that keep %s in BF16:\n",
                       v->n_damaged == 1 ? "it" : "them");
    if (f == 0 && !v->fails)
        put_rules(probe, f, out);
}

void mpt_probe_advice(const mpt_probe *probe, mpt_str *out) {
    put_repairs(probe, out);
    mpt_str_printf(out, "\n");
    for (int f = 0; f < probe->n_formats; f++)
        put_verdict(probe, f, out);
    mpt_str_printf(
        out,
        "A matrix stands out %.0f dB below the median, where it loses more than %.0f%% "
        "and %.0f times\nthe median, or where finite values become NaN or Inf.\n",
        MPT_PROBE_NOISE, 100 * MPT_PROBE_LOST, MPT_PROBE_TIMES);
}
