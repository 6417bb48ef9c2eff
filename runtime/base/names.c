/* Names: the nearest one to a misspelt word, globs, the hash, and the table of formats. */
#include "base/base.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t mpt_hash(const void *data, size_t bytes) {
    return XXH3_64bits(data, bytes);
}

/* ---- did you mean ---- */

enum { WORD_MAX = 64 };

static int min3(int a, int b, int c) {
    int m = a < b ? a : b;
    return m < c ? m : c;
}

/* Capitals are no slip: NVFP4 means nvfp4. */
static char fold(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same(char a, char b) {
    return fold(a) == fold(b);
}

/* Optimal string alignment distance: insert, delete, replace, swap of neighbours cost 1 each.
 */
static int distance(const char *a, const char *b) {
    int na = (int)strlen(a), nb = (int)strlen(b), d[3][WORD_MAX + 1];
    if (na > WORD_MAX || nb > WORD_MAX)
        return WORD_MAX;
    for (int j = 0; j <= nb; j++)
        d[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *row = d[i % 3], *up = d[(i - 1) % 3], *up2 = d[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            row[j] = min3(up[j] + 1, row[j - 1] + 1, up[j - 1] + !same(a[i - 1], b[j - 1]));
            bool swapped =
                i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
            if (swapped && up2[j - 2] + 1 < row[j])
                row[j] = up2[j - 2] + 1;
        }
    }
    return d[na % 3][nb];
}

const char *mpt_nearest(const char *word, const char *const *names, int n) {
    const char *best = NULL;
    if (!word || !names)
        return NULL;
    int best_distance = (int)strlen(word) / 3 + 1; /* farther away is a guess, not a slip */
    for (int i = 0; i < n; i++) {
        if (!names[i] || strcmp(word, names[i]) == 0)
            continue; /* the word itself is no way out */
        int d = distance(word, names[i]);
        if (d < best_distance || (d == best_distance && !best)) {
            best = names[i];
            best_distance = d;
        }
    }
    return best;
}

/* ---- globs ---- */

/* The end of a {a,b} group that starts at p: the '}' of the same depth, or NULL. */
static const char *group_end(const char *p) {
    int depth = 0;
    for (; *p; p++) {
        depth += *p == '{';
        depth -= *p == '}';
        if (depth == 0)
            return p;
    }
    return NULL;
}

static bool match(const char *glob, const char *text, int depth);

/* Tries each alternative of the group at `glob`, followed by the rest of the pattern. */
static bool match_group(const char *glob, const char *end, const char *text, int depth) {
    char pattern[256];
    const char *start = glob + 1;
    int level = 0;
    for (const char *p = start; p <= end; p++) {
        level += *p == '{';
        if (level == 0 && (*p == ',' || p == end)) {
            size_t n = (size_t)(p - start), rest = strlen(end + 1);
            if (n + rest < sizeof pattern) {
                memcpy(pattern, start, n);
                memcpy(pattern + n, end + 1, rest + 1);
                if (match(pattern, text, depth + 1))
                    return true;
            }
            start = p + 1;
        } else {
            level -= *p == '}';
        }
    }
    return false;
}

/* [a-z] at glob against one character; *after is set past the ']'. */
static bool match_set(const char *glob, char c, const char **after) {
    bool hit = false;
    const char *p = glob + 1;
    for (; *p && *p != ']'; p++) {
        if (p[1] == '-' && p[2] && p[2] != ']') {
            hit |= c >= p[0] && c <= p[2];
            p += 2;
        } else {
            hit |= *p == c;
        }
    }
    *after = *p ? p + 1 : p;
    return hit;
}

static bool match(const char *glob, const char *text, int depth) {
    const char *star = NULL, *star_text = NULL;
    if (depth > 16)
        return false;
    for (;;) {
        const char *after = glob + 1;
        const char *end = *glob == '{' ? group_end(glob) : NULL;
        bool one = false;
        if (*glob == '*') {
            star = ++glob;
            star_text = text;
            continue;
        }
        if (end) {
            if (match_group(glob, end, text, depth))
                return true;
        } else if (!*glob && !*text) {
            return true;
        } else if (*text) {
            one = *glob == '?' ||
                  (*glob == '[' ? match_set(glob, *text, &after) : *glob == *text);
        }
        if (one) {
            glob = after;
            text++;
        } else if (star && *star_text) {
            glob = star;
            text = ++star_text;
        } else {
            return false;
        }
    }
}

bool mpt_glob_match(const char *glob, const char *text) {
    return match(glob, text, 0);
}

/* ---- formats ---- */

static const struct {
    const char *name;
    int bits;
} formats[] = {
#define ROW(id, name, bits, eb, mb, bias, max) {name, bits},
    MPT_FORMAT_LIST(ROW)
#undef ROW
};

const char *mpt_dtype_name(mpt_dtype dtype) {
    return (unsigned)dtype < MPT_DTYPE_COUNT ? formats[dtype].name : "?";
}

int mpt_dtype_bits(mpt_dtype dtype) {
    return (unsigned)dtype < MPT_DTYPE_COUNT ? formats[dtype].bits : 0;
}

mpt_dtype mpt_dtype_by_name(const char *name) {
    for (int i = 0; i < MPT_DTYPE_COUNT; i++)
        if (strcmp(formats[i].name, name) == 0)
            return (mpt_dtype)i;
    return MPT_DTYPE_COUNT;
}
