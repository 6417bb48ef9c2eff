/* The shipped recipes, for tests that go through all of them: their names, and each over a
 * model of two blocks, which compiles in milliseconds and trains on `ref`. */
#ifndef MPT_ZOO_H
#define MPT_ZOO_H

#include "mpt_test.h"

#include <dirent.h>
#include <stdlib.h>

#include "runtime/pipeline.h"

enum { ZOO_MAX = 96, ZOO_NAME = 64 };

typedef struct zoo {
    int n;
    char names[ZOO_MAX][ZOO_NAME]; /* sorted, without ".lua" */
} zoo;

static inline int zoo_compare(const void *a, const void *b) {
    return strcmp(a, b);
}

static inline void zoo_list(zoo *z) {
    DIR *dir = opendir(MPT_SOURCE_DIR "/recipes");
    assert_non_null(dir);
    z->n = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t n = strlen(entry->d_name);
        if (n < 5 || strcmp(entry->d_name + n - 4, ".lua") != 0)
            continue;
        assert_true(z->n < ZOO_MAX && n - 4 < ZOO_NAME);
        snprintf(z->names[z->n++], ZOO_NAME, "%.*s", (int)(n - 4), entry->d_name);
    }
    closedir(dir);
    qsort(z->names, (size_t)z->n, ZOO_NAME, zoo_compare);
}

static inline mpt_recipe *zoo_load(mpt_ctx *ctx, const char *name) {
    char path[512];
    mpt_recipe *recipe = NULL;
    snprintf(path, sizeof path, "%s/recipes/%s.lua", MPT_SOURCE_DIR, name);
    assert_mpt_ok(ctx, mpt_recipe_load_file(ctx, path, NULL, &recipe));
    return recipe;
}

/* ---- shrunk to two blocks ---- */

/* What rules say of blocks, as far as two blocks have them. A rule on the first blocks goes
 * where others speak of the last: together they would leave nothing to quantize. */
static inline bool zoo_shrink_blocks(mpt_blocks *blocks) {
    switch (blocks->kind) {
    case MPT_BLOCKS_FIRST:
        return false;
    case MPT_BLOCKS_LAST:
    case MPT_BLOCKS_LAST_FRACTION:
        *blocks = (mpt_blocks){.kind = MPT_BLOCKS_LAST, .a = 1};
        return true;
    case MPT_BLOCKS_RANGE:
        *blocks = (mpt_blocks){.kind = MPT_BLOCKS_RANGE};
        return true;
    default:
        return true;
    }
}

static inline void zoo_shrink_rules(mpt_rule *rules, int *n) {
    int kept = 0;
    for (int i = 0; i < *n; i++)
        if (zoo_shrink_blocks(&rules[i].blocks))
            rules[kept++] = rules[i];
    *n = kept;
}

/* The recipe over two narrow blocks: of GPT-2, of a mixture of experts a dense and a
 * mixed one, or of the hybrid a Mamba-2 and an attention block. Four steps of two
 * micro-batches. */
static inline mpt_recipe *zoo_load_small(mpt_ctx *ctx, const char *name) {
    static const char format[] =
        "local name = '%s'\n"
        "local small = name:sub(1, 4) == 'gpt2'\n"
        "  and require 'models.gpt2' { n_layer = 2, n_embd = 32, n_head = 2, n_positions = 16 "
        "}\n"
        "  or name == 'deepseek_v3' and require 'models.deepseek_moe' { num_hidden_layers = "
        "2,\n"
        "    hidden_size = 128, intermediate_size = 128, num_attention_heads = 2,\n"
        "    num_key_value_heads = 1, n_routed_experts = 3, num_experts_per_tok = 2,\n"
        "    moe_intermediate_size = 128 }\n"
        "  or require 'models.nemotron_h' { hybrid_override_pattern = 'M*',\n"
        "    hidden_size = 32, intermediate_size = 64, num_attention_heads = 2,\n"
        "    num_key_value_heads = 1, head_dim = 16, mamba_num_heads = 4, mamba_head_dim = "
        "16,\n"
        "    ssm_state_size = 16, n_groups = 2, conv_kernel = 4 }\n"
        "return derive(require('recipes.' .. name), { model = small, proxy = small,\n"
        "  train = { steps = 4, batch = 2, micro_batch = 1, sequence = 16,\n"
        "    lr = constant { peak = 1e-3, warmup = 1 },\n"
        "    proxy = replace { steps = 4, batch = 2, sequence = 16 } } })\n";
    char text[2048];
    mpt_recipe *recipe = NULL;
    int length = snprintf(text, sizeof text, format, name);
    assert_mpt_ok(
        ctx, mpt_recipe_load_string(ctx, "small.lua", text, (size_t)length, NULL, &recipe));
    zoo_shrink_rules(recipe->rules, &recipe->n_rules);
    for (int p = 0; p < recipe->n_phases; p++)
        zoo_shrink_rules(recipe->phases[p].rules, &recipe->phases[p].n_rules);
    return recipe;
}

/* gpt2_base says no precision: it is what others derive from. */
static inline bool zoo_is_method(const char *name) {
    return strcmp(name, "gpt2_base") != 0;
}

#endif
