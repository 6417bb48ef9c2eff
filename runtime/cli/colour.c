/* Colours of the plan: told from the layout alone, line by line. */
#include "cli/colour.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_COLUMN = 12 }; /* of the plan's lines that begin with a name */

#define BOLD   "\033[1m"
#define DIM    "\033[2m"
#define YELLOW "\033[33m"
#define PLAIN  "\033[0m"

bool mpt_cli_colours(void) {
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(STDOUT_FILENO) == 1 && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

static void put(const char *colour, const char *text, size_t length) {
    printf("%s%.*s%s", colour, (int)length, text, PLAIN);
}

/* Whether a line begins with a name in the left column: "model       12,310,001,152 ...". */
static bool has_name(const char *line, size_t length) {
    return length > NAME_COLUMN && line[NAME_COLUMN - 1] == ' ' &&
           line[NAME_COLUMN - 2] == ' ' && line[NAME_COLUMN] != ' ';
}

static bool starts(const char *line, size_t length, const char *word) {
    return length >= strlen(word) && memcmp(line, word, strlen(word)) == 0;
}

/* *heading: the line before was one, so this one is the titles of a table. */
static void put_line(const char *line, size_t length, bool *heading) {
    bool indented = length == 0 || *line == ' ', titles = *heading && indented && length > 0;
    *heading = false;
    if (titles) {
        put(DIM, line, length);
    } else if (indented) {
        printf("%.*s", (int)length, line);
    } else if (starts(line, length, "warning ") || starts(line, length, "fell back ")) {
        put(YELLOW, line, length);
    } else if (has_name(line, length)) {
        put(DIM, line, NAME_COLUMN);
        printf("%.*s", (int)(length - NAME_COLUMN), line + NAME_COLUMN);
    } else {
        *heading = true;
        put(BOLD, line, length);
    }
}

bool mpt_cli_write_plan(void *ud, const char *text, size_t length) {
    bool heading = false;
    (void)ud;
    if (!mpt_cli_colours())
        return fwrite(text, 1, length, stdout) == length;
    for (size_t at = 0; at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t n = end ? (size_t)(end - (text + at)) : length - at;
        put_line(text + at, n, &heading);
        if (end)
            putchar('\n');
        at += n + (end != NULL);
    }
    return !ferror(stdout);
}
