/* mptrun check: compiles each recipe for the full model, and tells what is wrong with it.
 *
 * As text, a line a fault as compilers write them; with --json one array, an object a recipe.
 * Warnings do not change the exit status. */
#include "cli/check.h"

#include <string.h>

#include "cli/colour.h"
#include "cli/run.h"

/* One recipe on its way through. */
typedef struct checked {
    const char *path;
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_status status;
} checked;

/* ---- text ---- */

static mpt_exit tell(const mpt_ctx *ctx, const checked *c) {
    mpt_warning_view warning;
    int n = 0;
    const char *word = mpt_cli_colours() ? "\033[33mwarning\033[0m" : "warning";
    for (; mpt_program_warning(c->program, n, &warning); n++) {
        if (warning.file && warning.line > 0)
            printf("%s:%d: ", warning.file, warning.line);
        else if (warning.file && strcmp(warning.file, c->path) != 0) /* a preset of --set */
            printf("%s: %s: ", c->path, warning.file);
        else
            printf("%s: ", c->path);
        printf("%s: %s: %s\n", word, warning.name, warning.text);
    }
    if (c->program && n == 0)
        printf("%s: no errors, no warnings\n", c->path);
    return c->status == MPT_OK ? MPT_EXIT_DONE : mpt_cli_fail(ctx, c->status);
}

/* ---- JSON ---- */

/* The bytes of the UTF-8 character at `p`, 0 where there is none. Overlong forms, surrogates
 * and what is past U+10FFFF are told by the second byte. */
static int character(const unsigned char *p) {
    static const struct {
        unsigned char first, last, low, high;
        int length;
    } rows[] = {
        {0x00, 0x7f, 0x00, 0xff, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (*p < rows[i].first || *p > rows[i].last)
            continue;
        if (rows[i].length > 1 && (p[1] < rows[i].low || p[1] > rows[i].high))
            return 0;
        for (int k = 2; k < rows[i].length; k++)
            if ((p[k] & 0xc0) != 0x80)
                return 0;
        return rows[i].length;
    }
    return 0;
}

/* A string; bytes that are no UTF-8 become '?'. */
static void put_text(const char *text) {
    const unsigned char *p = (const unsigned char *)text;
    putchar('"');
    while (*p) {
        int n = character(p);
        if (*p == '"' || *p == '\\')
            printf("\\%c", *p);
        else if (*p < 0x20)
            printf("\\u%04x", *p);
        else if (n == 0)
            putchar('?');
        else
            printf("%.*s", n, (const char *)p);
        p += n ? n : 1;
    }
    putchar('"');
}

static void put_where(const char *file, int line) {
    char where[1024];
    snprintf(where, sizeof where, line > 0 ? "%s:%d" : "%s", file ? file : "", line);
    printf("\"where\": ");
    if (file)
        put_text(where);
    else
        printf("null");
}

static void put_error(const mpt_ctx *ctx, const checked *c) {
    const mpt_error *error = mpt_ctx_error(ctx);
    const char *text = error && *error->text ? error->text : mpt_status_text(c->status);
    printf("{");
    put_where(error ? error->file : NULL, error ? error->line : 0);
    printf(", \"text\": ");
    put_text(text);
    printf(", \"hint\": ");
    put_text(error ? error->hint : "");
    printf("}");
}

static void put_checked(const mpt_ctx *ctx, const checked *c) {
    mpt_warning_view warning;
    printf(" {\"recipe\": ");
    put_text(c->path);
    printf(", \"errors\": [");
    if (c->status != MPT_OK)
        put_error(ctx, c);
    printf("], \"warnings\": [");
    for (int i = 0; mpt_program_warning(c->program, i, &warning); i++) {
        printf("%s{\"name\": \"%s\", ", i ? ", " : "", warning.name);
        put_where(warning.file, warning.line);
        printf(", \"text\": ");
        put_text(warning.text);
        printf("}");
    }
    printf("]}");
}

/* ---- the command ---- */

static mpt_exit exit_of(mpt_status status) {
    bool machine = status == MPT_OUT_OF_MEMORY || status == MPT_IO || status == MPT_NO_DEVICE ||
                   status == MPT_INTERNAL;
    return status == MPT_OK ? MPT_EXIT_DONE : machine ? MPT_EXIT_MACHINE : MPT_EXIT_WRONG;
}

static mpt_exit check_one(mpt_ctx *ctx, const mpt_options *options, const char *path) {
    checked c = {.path = path};
    c.status = mpt_cli_load(ctx, options, path, &c.recipe);
    if (c.status == MPT_OK)
        c.status = mpt_cli_compile(c.recipe, options, MPT_MODEL_FULL, &c.program);
    mpt_exit result = exit_of(c.status);
    if (options->json)
        put_checked(ctx, &c);
    else
        result = tell(ctx, &c);
    mpt_program_destroy(c.program);
    mpt_recipe_destroy(c.recipe);
    return result;
}

mpt_exit mpt_cli_check(mpt_ctx *ctx, const mpt_options *options) {
    mpt_exit result = MPT_EXIT_DONE;
    for (int i = 0; i < options->n_words; i++) {
        if (options->json)
            printf("%s", i ? ",\n" : "[\n");
        mpt_exit one = check_one(ctx, options, options->words[i]);
        if (result == MPT_EXIT_DONE)
            result = one;
    }
    if (options->json)
        printf("\n]\n");
    return result;
}
