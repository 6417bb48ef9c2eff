/* sched/hash.c: each attribute of a node is in the hash of a schedule, or is said here not to
 * matter. A member that graph.h gets and nobody speaks of fails. */
#include "mpt_test.h"

#include <ctype.h>
#include <stddef.h>

#include "golden_text.h"
#include "recipe/schema.h"
#include "sched/program.h"

typedef struct member {
    const char *name; /* as graph.h declares it in mpt_attrs */
    size_t at, size;
    mpt_op op; /* that reads it */
    mpt_pass pass;
    bool matters;
} member;

#define AT(m) offsetof(mpt_attrs, m), sizeof((mpt_attrs *)0)->m
#define SAID(name, m)                                                                          \
    { name, AT(m), MPT_OP_linear, MPT_PASS_FORWARD, true }
#define COPY(name, m)                                                                          \
    { name, AT(m), MPT_OP_quantize, MPT_PASS_FORWARD, true }
#define NOT(name, m)                                                                           \
    { name, AT(m), MPT_OP_quantize, MPT_PASS_FORWARD, false }

static const member members[] = {
    SAID("batch", batch),
    SAID("sequence", sequence),
    SAID("eps", eps),
    SAID("scale", scale),
    SAID("heads", heads),
    SAID("kv_heads", kv_heads),
    SAID("head_dim", head_dim),
    SAID("groups", groups),
    SAID("state", state),
    SAID("kernel", kernel),
    SAID("experts", experts),
    SAID("top_k", top_k),
    SAID("top_groups", top_groups),
    SAID("align", align),
    SAID("by_softmax", by_softmax),
    SAID("normalize", normalize),
    SAID("n_sizes", n_sizes),
    SAID("sizes", sizes[0]),
    SAID("exact", exact),
    SAID("rope", rope.theta),
    SAID("rope", rope.dims),
    SAID("rope", rope.scaling),
    SAID("rope", rope.factor),
    SAID("rope", rope.low_freq_factor),
    SAID("rope", rope.high_freq_factor),
    SAID("rope", rope.original_positions),
    SAID("p", p),
    SAID("softmax", softmax),
    SAID("alpha", alpha),
    SAID("sum", sum.accumulate),
    SAID("sum", sum.promote),
    SAID("rate", rate),
    {"rate", AT(rate), MPT_OP_moe_balance, MPT_PASS_UPDATE, true},
    {"reduce", AT(reduce), MPT_OP_grad_reduce, MPT_PASS_UPDATE, true},
    COPY("has_row", has_row),
    COPY("has_col", has_col),
    COPY("row", row.block_cols),
    COPY("col", col.block_cols),
    {"row", AT(row.block_cols), MPT_OP_scale_update, MPT_PASS_UPDATE, true},
    COPY("row_operand", row_operand),
    COPY("col_operand", col_operand),
    /* Hashes of the layer's path, which is hashed itself. */
    NOT("kept_later", kept_later), /* the nodes that round them stand there */
    NOT("scope", scope),
    NOT("row_scope", row_scope),
    NOT("col_scope", col_scope),
    /* Where counts and norms go. */
    NOT("row_index", row_index),
    NOT("col_index", col_index),
    NOT("row_again", row_again),
    NOT("col_again", col_again),
    /* The recipe hash has them. */
    NOT("beta1", beta1),
    NOT("beta2", beta2),
    NOT("weight_decay", weight_decay),
    NOT("momentum", momentum),
    NOT("clip", clip),
};

static void hash_of(const mpt_node *node, char out[17]) {
    mpt_graph graph;
    mpt_node copy = *node;
    memset(&graph, 0, sizeof graph);
    graph.nodes = &copy;
    graph.n_nodes = 1;
    mpt_schedule_hash(&graph, out);
}

static void test_hash_when_a_member_changes_then_it_changes_where_that_matters(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(members); i++) {
        const member *m = &members[i];
        mpt_node node = mpt_node_make(m->op, m->pass, -1);
        char before[17], after[17];
        node.attrs.n_sizes = 2;
        node.attrs.has_row = node.attrs.has_col = true;
        assert_true(mpt_quantizer_by_name("nvfp4", &node.attrs.row));
        node.attrs.row.rounding = MPT_ROUNDING_STOCHASTIC;
        node.attrs.col = node.attrs.row;
        hash_of(&node, before);
        ((unsigned char *)&node.attrs)[m->at] ^= 1;
        hash_of(&node, after);
        if ((strcmp(before, after) != 0) != m->matters)
            fail_msg("%s of %s (byte %zu)", m->name, mpt_op_get(m->op)->name, m->at);
    }
}

static bool is_listed(const char *name, size_t length) {
    for (size_t i = 0; i < MPT_COUNT(members); i++)
        if (strlen(members[i].name) == length && !strncmp(members[i].name, name, length))
            return true;
    return false;
}

/* Blanks out the comments and what stands in brackets. */
static void blank(char *text) {
    bool comment = false, bracket = false;
    for (char *p = text; *p; p++) {
        comment |= p[0] == '/' && p[1] == '*';
        bool ends = comment && p > text && p[-1] == '*' && p[0] == '/';
        bracket |= *p == '[';
        bool closes = *p == ']';
        if (ends)
            p[-1] = ' ';
        if ((comment && p[1] != '/') || bracket || ends)
            *p = *p == '*' && comment ? '*' : ' ';
        if (ends)
            comment = false;
        if (closes)
            bracket = false;
    }
}

/* Each name in front of a comma or a semicolon is a member. */
static void test_members_when_graph_h_declares_them_then_each_is_in_the_list(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str text;
    int n = 0;
    mpt_str_init(&text, ctx);
    assert_true(golden_read(MPT_SOURCE_DIR "/runtime/graph/graph.h", &text));
    char *begin = strstr(text.data, "typedef struct mpt_attrs {");
    assert_non_null(begin);
    begin += strlen("typedef struct mpt_attrs {");
    char *end = strstr(begin, "} mpt_attrs;");
    assert_non_null(end);
    *end = 0;
    blank(begin);
    for (char *p = begin; *p; p++) {
        if (*p != ',' && *p != ';')
            continue;
        char *last = p, *first;
        while (last > begin && !isalnum((unsigned char)last[-1]) && last[-1] != '_')
            last--;
        for (first = last;
             first > begin && (isalnum((unsigned char)first[-1]) || first[-1] == '_'); first--)
            ;
        if (!is_listed(first, (size_t)(last - first)))
            fail_msg("mpt_attrs.%.*s: hash it in sched/hash.c and list it here",
                     (int)(last - first), first);
        n++;
    }
    assert_in_range(n, 40, 80);
    mpt_str_deinit(&text);
    mpt_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash_when_a_member_changes_then_it_changes_where_that_matters),
        cmocka_unit_test(test_members_when_graph_h_declares_them_then_each_is_in_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
