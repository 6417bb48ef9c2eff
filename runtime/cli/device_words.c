/* Names of GPUs, their compute capabilities, and other words for a device. See
 * device_words.h. */
#include "cli/device_words.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char nothing[] = "", sm80[] = "sm80", sm90[] = "sm90", sm100[] = "sm100";

typedef struct meaning {
    const char *word, *meant;
} meaning;

/* By the name of a card or of its kind. NVIDIA's list of CUDA GPUs says the capability of each;
 * those of 8.x run what 8.0 runs. */
static const meaning names[] = {
    {"a100", sm80},      {"a800", sm80},      {"a10", sm80},       {"a10g", sm80},
    {"a16", sm80},       {"a2", sm80},        {"a30", sm80},       {"a40", sm80},
    {"a4000", sm80},     {"a5000", sm80},     {"a6000", sm80},     {"3080", sm80},
    {"3090", sm80},      {"4080", sm80},      {"4090", sm80},      {"l4", sm80},
    {"l20", sm80},       {"l40", sm80},       {"l40s", sm80},      {"ampere", sm80},
    {"ada", sm80},       {"lovelace", sm80},  {"h100", sm90},      {"h200", sm90},
    {"h800", sm90},      {"h20", sm90},       {"gh200", sm90},     {"hopper", sm90},
    {"b100", sm100},     {"b200", sm100},     {"gb200", sm100},    {"blackwell", sm100},
    {"b300", nothing},   {"gb300", nothing},  {"5080", nothing},   {"5090", nothing},
    {"v100", nothing},   {"volta", nothing},  {"t4", nothing},     {"turing", nothing},
    {"p100", nothing},   {"p40", nothing},    {"pascal", nothing}, {"k80", nothing},
    {"2080", nothing},   {"2080ti", nothing}, {"1080", nothing},   {"1080ti", nothing},
    {"3080ti", sm80},    {"3090ti", sm80},    {"rubin", nothing},  {"orin", sm80},
    {"thor", nothing},   {"mi250", nothing},  {"mi250x", nothing}, {"mi300", nothing},
    {"mi300x", nothing}, {"mi325x", nothing}, {"mi355x", nothing},
};

/* What stands before a name, or is said of it besides. */
static const char *const makers[] = {"nvidia", "geforce", "rtx",   "tesla",
                                     "quadro", "grace",   "super", "gpu"};

/* Words for a device that are no names of cards. */
static const meaning devices[] = {
    {"gpu", "cuda"},      {"gpus", "cuda"},      {"nvidia", "cuda"},  {"cuda", "cuda"},
    {"host", "cpu"},      {"local", "cpu"},      {"x86", "cpu"},      {"arm", "cpu"},
    {"reference", "ref"}, {"slow", "ref"},       {"default", "auto"}, {"any", "auto"},
    {"best", "auto"},     {"automatic", "auto"}, {"tpu", nothing},    {"npu", nothing},
    {"xpu", nothing},     {"ipu", nothing},      {"hpu", nothing},    {"apu", nothing},
    {"dpu", nothing},     {"vpu", nothing},      {"fpga", nothing},   {"mps", nothing},
    {"hip", nothing},     {"rocm", nothing},     {"xla", nothing},    {"metal", nothing},
    {"amd", nothing},     {"intel", nothing},    {"opencl", nothing}, {"vulkan", nothing},
    {"sycl", nothing},    {"meta", nothing},     {"none", nothing},   {"gaudi", nothing},
};

static const meaning targets[] = {
    {"cpu", "host"},  {"local", "host"}, {"here", "host"},  {"this", "host"},
    {"auto", "host"}, {"gpu", nothing},  {"cuda", nothing}, {"nvidia", nothing},
    {"ref", nothing}, {"tpu", nothing},  {"rocm", nothing}, {"amd", nothing},
};

enum { WORD_BYTES = 32 };

static const char *find(const meaning *rows, size_t n, const char *word) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].word, word) == 0)
            return rows[i].meant;
    return NULL;
}
#define FIND(rows, word) find(rows, sizeof(rows) / sizeof(rows)[0], word)

/* The next run of letters and digits of a word, in small letters; false: there is none. */
static bool next_piece(const char **word, char out[WORD_BYTES]) {
    size_t n = 0;
    const char *at = *word + strcspn(*word, "abcdefghijklmnopqrstuvwxyz"
                                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
    for (; n + 1 < WORD_BYTES; at++) {
        bool capital = *at >= 'A' && *at <= 'Z';
        if (!capital && !(*at >= 'a' && *at <= 'z') && !(*at >= '0' && *at <= '9'))
            break;
        out[n++] = (char)(capital ? *at - 'A' + 'a' : *at);
    }
    out[n] = 0;
    *word = at;
    return n > 0;
}

/* What is left of a piece behind the words that say nothing: "rtx4090" is a 4090. */
static const char *behind_makers(const char *piece) {
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++) {
        size_t n = strlen(makers[i]);
        if (strncmp(makers[i], piece, n) == 0)
            return behind_makers(piece + n);
    }
    return piece;
}

/* "RTX 4090", "H100-80GB", "nvidia_h200": the first piece that says something. */
static const char *by_name(const char *word) {
    char piece[WORD_BYTES];
    while (next_piece(&word, piece)) {
        const char *card = behind_makers(piece);
        if (*card)
            return FIND(names, card);
    }
    return NULL;
}

/* ---- compute capabilities ---- */

/* What follows "sm_", "compute_" or the like; NULL where the word begins otherwise. */
static const char *behind_prefix(const char *word) {
    static const char *const leads[] = {"compute", "sm", "cc"};
    for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++) {
        size_t n = strlen(leads[i]);
        for (size_t k = 0; k < n; k++)
            if ((word[k] | 0x20) != leads[i][k])
                n = 0;
        if (n > 0)
            return word + n + (word[n] == '_' || word[n] == '-' || word[n] == ' ');
    }
    return NULL;
}

/* "9.0" and "90", "10.0" and "100", with an "a" or "f" behind or without, as ten times the
 * major number and the minor one; 0: no such number. */
static int read_capability(const char *digits, bool *out_dotted) {
    char *end = NULL;
    if (*digits < '1' || *digits > '9')
        return 0;
    long n = strtol(digits, &end, 10);
    *out_dotted = *end == '.' && end[1] >= '0' && end[1] <= '9';
    if (*out_dotted) {
        n = n < 100 ? 10 * n + end[1] - '0' : 0;
        end += 2;
    } else if (n < 20) { /* "9", "10": a major number alone */
        n *= 10;
    }
    end += *end == 'a' || *end == 'f';
    return *end || n > 999 ? 0 : (int)n;
}

/* Those that are no GPU's say nothing: 91 is a slip, and 120 is not. */
static const char *by_capability(int capability) {
    static const int others[] = {50, 52, 53, 60, 61, 62, 70, 72, 75, 101, 103, 110, 120, 121};
    if (capability / 10 == 8)
        return sm80;
    if (capability == 90)
        return sm90;
    if (capability == 100)
        return sm100;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i] == capability)
            return nothing;
    return NULL;
}

/* The target that a word names as a card or as a capability. */
static const char *find_gpu(const char *word, bool *out_bare) {
    const char *meant = by_name(word), *digits = behind_prefix(word);
    bool dotted = false;
    *out_bare = false;
    if (meant)
        return meant;
    int capability = read_capability(digits ? digits : word, &dotted);
    *out_bare = !digits && !dotted;
    return capability > 0 ? by_capability(capability) : NULL;
}

/* ---- what the options ask ---- */

const char *mpt_target_word_meant(const char *word) {
    char piece[WORD_BYTES];
    bool bare;
    const char *rest = word, *meant = find_gpu(word, &bare);
    if (meant || !next_piece(&rest, piece))
        return meant;
    meant = FIND(targets, piece);
    /* A word with digits that is no capability is the name of something else. */
    bool named = !behind_prefix(word) && piece[strcspn(piece, "0123456789")];
    return meant || !named ? meant : nothing;
}

/* "gpu", "cuda:0", and whatever names a GPU that cuda would take. */
const char *mpt_device_word_meant(const char *word) {
    char piece[WORD_BYTES];
    bool bare;
    const char *rest = word, *gpu = find_gpu(word, &bare);
    if (gpu && !bare)
        return *gpu ? "cuda" : nothing;
    if (!next_piece(&rest, piece))
        return NULL;
    piece[strcspn(piece, "0123456789")] = 0; /* cuda0 */
    return FIND(devices, piece);
}

const char *mpt_target_word_told(const char *target) {
    static const meaning told[] = {{sm80, "sm80 (A100, and others of 8.x)"},
                                   {sm90, "sm90 (H100, H200)"},
                                   {sm100, "sm100 (B200, GB200)"}};
    return FIND(told, target);
}
