/* renew FILE: writes the sum of a checkpoint.json that was changed, so that its words are what
 * is judged and not its bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

int main(int argc, char **argv) {
    static char text[1 << 20];
    FILE *file = argc == 2 ? fopen(argv[1], "r+b") : NULL;
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    char *tail = NULL;
    for (char *at = text; (at = strstr(at, ",\n  \"xxh3\": \"")) != NULL; at++)
        tail = at; /* the last: files have sums of their own */
    if (!tail)
        return 1;
    n = (size_t)(tail - text);
    bool done = fseek(file, (long)n, SEEK_SET) == 0 &&
                fprintf(file, ",\n  \"xxh3\": \"%016" PRIx64 "\"\n}\n", mpt_hash(text, n)) > 0;
    return fclose(file) == 0 && done ? 0 : 1;
}
