/* The sample command: a model of bytes, from a run folder or from a recipe with weights.
 *
 * The model is compiled with one sequence a micro-batch, because one window is all that is
 * read. Where the data of the run is gone, only its vocabulary is missed, and that is known:
 * the bytes. On a terminal, bytes that are no text are shown as U+FFFD, so that no model can
 * speak to the terminal itself; elsewhere they go out as they are. */
#include "cli/sample.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run.h"
#include "mpt/tools.h"

typedef struct sampling {
    mpt_ctx *ctx;
    const mpt_options *options;
    mpt_past_run past; /* of a run folder; else empty */
    const char *recipe_path, *weights;
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_trainer *trainer;
} sampling;

/* ---- what is written ---- */

/* A character in the making, for terminals. */
typedef struct screen {
    bool terminal;
    unsigned char held[4];
    int n, wanted; /* bytes held, and of the whole character */
    char last;
} screen;

static bool put(const void *text, size_t n) {
    return fwrite(text, 1, n, stdout) == n;
}

static bool put_unknown(void) {
    return put("\xef\xbf\xbd", 3);
}

/* How many bytes a character has that begins with this one; 0: none does. */
static int length_of(unsigned char c) {
    return c < 0x80                ? 1
           : c >= 0xc2 && c < 0xe0 ? 2
           : c >= 0xe0 && c < 0xf0 ? 3
           : c >= 0xf0 && c < 0xf5 ? 4
                                   : 0;
}

/* Whether a whole character may be shown: no control, surrogate, overlong form or excess. */
static bool is_shown(const unsigned char *c, int n) {
    if (n == 1)
        return (*c >= 0x20 && *c != 0x7f) || *c == '\n' || *c == '\t';
    if (n == 2)
        return *c != 0xc2 || c[1] >= 0xa0;
    if (n == 3)
        return (*c != 0xe0 || c[1] >= 0xa0) && (*c != 0xed || c[1] < 0xa0);
    return (*c != 0xf0 || c[1] >= 0x90) && (*c != 0xf4 || c[1] < 0x90);
}

static bool put_byte(screen *s, unsigned char byte) {
    bool good = true;
    if (s->n > 0 && (byte & 0xc0) != 0x80) { /* what is held never ends */
        s->n = 0;
        good = put_unknown();
    }
    if (s->n == 0 && (s->wanted = length_of(byte)) == 0)
        return put_unknown() && good;
    s->held[s->n++] = byte;
    if (s->n < s->wanted)
        return good;
    s->n = 0;
    good = (is_shown(s->held, s->wanted) ? put(s->held, (size_t)s->wanted) : put_unknown()) &&
           good;
    return good;
}

/* A mpt_write_fn: each byte is out before the next is drawn. */
static bool show(void *ud, const char *text, size_t n) {
    screen *s = ud;
    bool good = true;
    if (!s->terminal)
        good = put(text, n);
    for (size_t i = 0; s->terminal && i < n; i++)
        good = put_byte(s, (unsigned char)text[i]) && good;
    if (n > 0)
        s->last = text[n - 1];
    return good && fflush(stdout) == 0;
}

/* A prompt of the shell begins on a line of its own. */
static void end_screen(screen *s) {
    if (s->terminal && s->n > 0)
        (void)put_unknown();
    if (s->terminal && s->last != '\n')
        (void)put("\n", 1);
}

/* ---- the model ---- */

static bool is_folder(const char *path) {
    struct stat there;
    return stat(path, &there) == 0 && S_ISDIR(there.st_mode);
}

static mpt_exit usage(const char *text) {
    fprintf(stderr, "mptrun: %s; see mptrun help sample\n", text);
    return MPT_EXIT_USAGE;
}

/* Why a word that is no folder gives no text without --weights. */
static mpt_exit refuse_file(const char *word) {
    struct stat there;
    size_t n = strlen(word);
    if (stat(word, &there) != 0)
        fprintf(stderr, "mptrun: %s: %s; name a run folder, or a recipe and its --weights\n",
                word, strerror(errno));
    else if (n < 4 || strcmp(word + n - 4, ".lua") != 0)
        fprintf(stderr,
                "mptrun: %s: is no run folder and no recipe; weights are named by --weights, "
                "behind their recipe\n",
                word);
    else
        return usage("a recipe alone has learnt nothing: name its --weights, or a run folder");
    return MPT_EXIT_WRONG;
}

/* Which recipe, and which weights. */
static mpt_exit find_run(sampling *s) {
    const char *word = s->options->words[0];
    s->past.model = -1;
    s->recipe_path = word;
    s->weights = s->options->weights;
    if (!is_folder(word))
        return s->weights ? MPT_EXIT_DONE : refuse_file(word);
    mpt_exit result = mpt_past_run_read(&s->past, word);
    if (result != MPT_EXIT_DONE)
        return result;
    s->recipe_path = s->past.recipe;
    if (!s->weights && !*s->past.weights) {
        fprintf(stderr,
                "mptrun: %s: has no checkpoints/step-N with weights; name some by --weights\n",
                word);
        return MPT_EXIT_WRONG;
    }
    s->weights = s->weights ? s->weights : s->past.weights;
    return MPT_EXIT_DONE;
}

/* Loads and compiles with the settings of the run, then ours, then those of the command line.
 */
static mpt_status compile(sampling *s, bool without_data) {
    enum { OURS = 3 };
    static const mpt_set ours[OURS] = {
        {"train.micro_batch", "1"}, {"data", "synthetic"}, {"data.vocab", "256"}};
    mpt_set sets[2 * MPT_CLI_SETS + OURS];
    mpt_options options = *s->options;
    int n = 0;
    for (int i = 0; i < s->past.n_sets; i++)
        sets[n++] = s->past.sets[i];
    for (int i = 0; i < (without_data ? OURS : 1); i++)
        sets[n++] = ours[i];
    for (int i = 0; i < s->options->n_sets; i++)
        sets[n++] = s->options->sets[i];
    if (!options.data && !without_data)
        options.data = s->past.data;
    if (options.model < 0)
        options.model = s->past.model;
    mpt_program_destroy(s->program);
    mpt_recipe_destroy(s->recipe);
    s->program = NULL;
    s->recipe = NULL;
    mpt_status status = mpt_cli_load_sets(s->ctx, s->recipe_path, sets, n, &s->recipe);
    return status != MPT_OK ? status
                            : mpt_cli_compile(s->recipe, &options, MPT_MODEL_AUTO, &s->program);
}

static mpt_status prepare(sampling *s, mpt_progress *progress) {
    mpt_status status = compile(s, false);
    if (status == MPT_NOT_FOUND && s->recipe && !s->options->data) {
        status = compile(s, true);
        if (status == MPT_OK && !s->options->quiet)
            mpt_progress_note(progress,
                              "mptrun: the data of the run is not there: taken as text");
    }
    if (status == MPT_OK)
        status = mpt_trainer_create(s->program, NULL, &s->trainer);
    if (status == MPT_OK)
        status = mpt_trainer_load_weights(s->trainer, s->weights);
    if (status == MPT_OK) {
        mpt_program_info info = mpt_program_get_info(s->program);
        if (!s->options->quiet)
            mpt_progress_note(progress, "mptrun: %s %s, weights of %s", info.model,
                              info.size_name, s->weights);
        mpt_cli_note_choices(&info, progress);
    }
    return status;
}

/* ---- the command ---- */

/* Digits only; --tokens of other commands is a file. */
static bool read_count(const char *text, int64_t *out) {
    char *end = NULL;
    *out = 256;
    if (!text)
        return true;
    *out = strtoll(text, &end, 10);
    return !text[strspn(text, "0123456789")] && strlen(text) < 10 && *out <= 1 << 30;
}

static mpt_status sample(sampling *s, int64_t n_tokens) {
    mpt_sample_options sample = MPT_SAMPLE_OPTIONS_INIT;
    screen out = {.terminal = isatty(STDOUT_FILENO) != 0};
    sample.prompt = s->options->prompt;
    sample.prompt_bytes = s->options->prompt ? strlen(s->options->prompt) : 0;
    sample.n_tokens = n_tokens;
    sample.temperature = s->options->temperature;
    sample.top_k = (int)s->options->top_k;
    sample.seed = s->options->seed;
    mpt_status status = mpt_sample(s->trainer, &sample, show, &out);
    end_screen(&out);
    return status;
}

mpt_exit mpt_cli_sample(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    sampling s = {.ctx = ctx, .options = options};
    int64_t n_tokens;
    if (!read_count(options->tokens, &n_tokens))
        return usage("--tokens wants a number of bytes, such as 300");
    mpt_exit result = find_run(&s);
    if (result == MPT_EXIT_DONE) {
        mpt_status status = prepare(&s, progress);
        if (status == MPT_OK)
            status = sample(&s, n_tokens);
        result = mpt_cli_printed(ctx, status);
    }
    mpt_trainer_destroy(s.trainer);
    mpt_program_destroy(s.program);
    mpt_recipe_destroy(s.recipe);
    free(s.past.text);
    return result;
}
