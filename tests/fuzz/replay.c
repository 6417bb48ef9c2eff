/* A fuzz target without a fuzzer: every seed of a folder, and mutations of each.
 *
 *   replay FOLDER MUTATIONS
 *
 * The random numbers start at a fixed seed, so each run does the same; what libFuzzer found is
 * added to the folder and stays found. */
#include "fuzz.h"

#include <dirent.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 4096 };

static uint64_t random_state;

/* splitmix64 */
static size_t random_below(size_t n) {
    uint64_t z = random_state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (size_t)((z ^ z >> 31) % n);
}

/* Text that matters to a header, or to any parser of numbers. */
static const char *const words[] = {
    "{",     "}",       "[",       "]",      ",",          ":",    "\"",
    "0",     "-1",      "1.0",     "1e9",    "4294967296", "[0]",  "9223372036854775807",
    "\"a\"", "\\u0000", "\"F32\"", "\"F4\"", "null",       "\xff", "\"__metadata__\""};

/* Puts n bytes in at a place, if there is room. */
static size_t insert(uint8_t *data, size_t size, size_t max_size, const void *bytes, size_t n) {
    if (size + n > max_size)
        return size;
    size_t at = random_below(size + 1);
    memmove(data + at + n, data + at, size - at);
    memcpy(data + at, bytes, n);
    return size + n;
}

static size_t mutate_once(uint8_t *data, size_t size, size_t max_size) {
    uint8_t byte = (uint8_t)random_below(256), part[16];
    const char *word = words[random_below(sizeof words / sizeof *words)];
    size_t n = 1 + random_below(sizeof part), at = size ? random_below(size) : 0;
    switch (size ? random_below(6) : 0) {
    case 0:
        return insert(data, size, max_size, word, strlen(word));
    case 1:
        return insert(data, size, max_size, &byte, 1);
    case 2:
        data[at] ^= (uint8_t)(1u << random_below(8));
        return size;
    case 3: /* a digit for a digit keeps the JSON whole */
        if (data[at] >= '0' && data[at] <= '9')
            data[at] = (uint8_t)('0' + random_below(10));
        else
            data[at] = byte;
        return size;
    case 4: /* takes a part away */
        n = n < size - at ? n : size - at;
        memmove(data + at, data + at + n, size - at - n);
        return size - n;
    default: /* doubles a part */
        n = n < size - at ? n : size - at;
        memcpy(part, data + at, n);
        return insert(data, size, max_size, part, n);
    }
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) {
    for (size_t n = 1 + random_below(3); n > 0; n--)
        size = mutate_once(data, size, max_size);
    return size;
}

static size_t read_seed(const char *folder, const char *name, uint8_t *out) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return 0;
    size_t size = fread(out, 1, MAX_BYTES, file);
    fclose(file);
    return size;
}

static void run_seed(const uint8_t *seed, size_t seed_size, long mutations) {
    static uint8_t data[MAX_BYTES];
    LLVMFuzzerTestOneInput(seed, seed_size);
    for (long i = 0; i < mutations; i++) {
        memcpy(data, seed, seed_size);
        size_t size = LLVMFuzzerCustomMutator(data, seed_size, MAX_BYTES,
                                              (unsigned)random_below(1u << 31));
        LLVMFuzzerTestOneInput(data, size);
    }
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

int main(int argc, char **argv) {
    static uint8_t seed[MAX_BYTES];
    struct dirent **entries = NULL;
    int n_seeds = 0;
    int n = argc == 3 ? scandir(argv[1], &entries, NULL, by_name) : -1;
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.') {
            run_seed(seed, read_seed(argv[1], entries[i]->d_name, seed), atol(argv[2]));
            n_seeds++;
        }
        free(entries[i]);
    }
    free(entries);
    printf("%d seeds\n", n_seeds);
    return n_seeds == 0; /* a replay of nothing is no test */
}
