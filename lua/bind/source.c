/* A lexer of Lua just large enough to walk through table constructors.
 *
 * It knows names, strings in all their forms, comments, and brackets; every other character is
 * a token of its own. Calls that take a table are recognised by what stands before the brace:
 * `word {`, `word "x" {`, or any place inside `word( ... )`. */
#include "lua/bind/source.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_MAX = 64, LUA_DEPTH = 190 /* where Lua's reader gives up */ };

typedef enum token_kind { END, NAME, STRING, NUMBER, MARK } token_kind;

typedef struct token {
    token_kind kind;
    const char *text; /* of a string: without its delimiters */
    size_t length;
    int line;
    char mark; /* of a MARK; '=' is assignment only, comparisons are '~' */
} token;

typedef struct lexer {
    const char *at, *end;
    int line;
} lexer;

/* ---- tokens ---- */

static bool is_name_char(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* The level of a long bracket that opens here, or -1. */
static int long_level(const lexer *lx) {
    const char *p = lx->at + 1;
    int level = 0;
    while (p < lx->end && *p == '=')
        p++, level++;
    return lx->at < lx->end && *lx->at == '[' && p < lx->end && *p == '[' ? level : -1;
}

/* Steps over a long bracket and gives its inside. */
static void long_bracket(lexer *lx, int level, token *out) {
    lx->at += level + 2;
    out->text = lx->at;
    for (; lx->at < lx->end; lx->at++) {
        if (*lx->at == '\n')
            lx->line++;
        if (*lx->at != ']')
            continue;
        const char *p = lx->at + 1;
        int n = 0;
        while (p < lx->end && *p == '=')
            p++, n++;
        if (n == level && p < lx->end && *p == ']') {
            out->length = (size_t)(lx->at - out->text);
            lx->at = p + 1;
            return;
        }
    }
    out->length = (size_t)(lx->at - out->text);
}

static void short_string(lexer *lx, token *out) {
    char quote = *lx->at++;
    out->text = lx->at;
    while (lx->at < lx->end && *lx->at != quote) {
        if (*lx->at == '\\' && lx->at + 1 < lx->end)
            lx->at++;
        if (*lx->at == '\n')
            lx->line++;
        lx->at++;
    }
    out->length = (size_t)(lx->at - out->text);
    if (lx->at < lx->end)
        lx->at++;
}

/* Spaces and comments. */
static void skip_blank(lexer *lx) {
    while (lx->at < lx->end) {
        if (*lx->at == '\n')
            lx->line++;
        if (isspace((unsigned char)*lx->at)) {
            lx->at++;
        } else if (lx->end - lx->at >= 2 && lx->at[0] == '-' && lx->at[1] == '-') {
            lx->at += 2;
            token comment;
            int level = long_level(lx);
            if (level >= 0)
                long_bracket(lx, level, &comment);
            else
                while (lx->at < lx->end && *lx->at != '\n')
                    lx->at++;
        } else {
            return;
        }
    }
}

static void read_mark(lexer *lx, token *out) {
    char c = *lx->at, next = lx->at + 1 < lx->end ? lx->at[1] : 0;
    out->mark = c;
    lx->at++;
    if (next == '=' && strchr("=~<>", c)) {
        out->mark = '~';
        lx->at++;
    }
}

static token next_token(lexer *lx) {
    skip_blank(lx);
    token t = {.kind = END, .text = lx->at, .line = lx->line};
    if (lx->at >= lx->end)
        return t;
    char c = *lx->at;
    if (isalpha((unsigned char)c) || c == '_') {
        t.kind = NAME;
        while (lx->at < lx->end && is_name_char(*lx->at))
            lx->at++;
        t.length = (size_t)(lx->at - t.text);
    } else if (isdigit((unsigned char)c)) {
        t.kind = NUMBER;
        while (lx->at < lx->end && (is_name_char(*lx->at) || *lx->at == '.'))
            lx->at++;
        t.length = (size_t)(lx->at - t.text);
    } else if (c == '"' || c == '\'') {
        t.kind = STRING;
        short_string(lx, &t);
    } else if (long_level(lx) >= 0) {
        t.kind = STRING;
        long_bracket(lx, long_level(lx), &t);
    } else {
        t.kind = MARK;
        read_mark(lx, &t);
    }
    return t;
}

static token peek(const lexer *lx) {
    lexer copy = *lx;
    return next_token(&copy);
}

static bool is_mark(token t, char mark) {
    return t.kind == MARK && t.mark == mark;
}

static bool is_text(token t, token_kind kind, const char *text) {
    return t.kind == kind && strlen(text) == t.length && memcmp(t.text, text, t.length) == 0;
}

/* ---- inside a table ---- */

/* How a token changes the depth of nesting: brackets, and what ends with `end` or `until`. */
static int depth_change(token t) {
    static const char *const openers[] = {"function", "if", "do", "repeat"};
    if (t.kind == MARK)
        return strchr("({[", t.mark) ? 1 : strchr(")}]", t.mark) ? -1 : 0;
    if (is_text(t, NAME, "end") || is_text(t, NAME, "until"))
        return -1;
    for (size_t i = 0; i < sizeof openers / sizeof *openers; i++)
        if (is_text(t, NAME, openers[i]))
            return 1;
    return 0;
}

/* Steps over an expression, up to the comma, semicolon or bracket that ends it. */
static void skip_expression(lexer *lx) {
    int depth = 0;
    for (;;) {
        token t = peek(lx);
        if (t.kind == END)
            return;
        if (depth == 0 && (is_mark(t, ',') || is_mark(t, ';') || is_mark(t, '}')))
            return;
        depth += depth_change(t);
        (void)next_token(lx);
    }
}

/* The key of the field that starts here; the lexer is left at its value. */
static mpt_source_key read_key(lexer *lx, long long *position, token *out_token) {
    lexer after = *lx;
    token t = next_token(&after);
    *out_token = t;
    if (t.kind == NAME && is_mark(peek(&after), '=')) {
        (void)next_token(&after);
        *lx = after;
        return (mpt_source_key){.name = t.text};
    }
    if (is_mark(t, '[')) {
        token key = next_token(&after);
        if (is_mark(next_token(&after), ']') && is_mark(next_token(&after), '=')) {
            *out_token = key;
            *lx = after;
            if (key.kind == STRING)
                return (mpt_source_key){.name = key.text};
            return (mpt_source_key){.index = strtoll(key.text, NULL, 10)};
        }
    }
    return (mpt_source_key){.index = ++*position};
}

static bool same_key(mpt_source_key found, token t, mpt_source_key wanted) {
    if (!wanted.name || !found.name)
        return !wanted.name && !found.name && wanted.index == found.index;
    return strlen(wanted.name) == t.length && memcmp(wanted.name, t.text, t.length) == 0;
}

/* After an opening brace: how many steps of the path are written here, and the last one's line.
 */
static int match_path(lexer lx, const mpt_source_key *path, int n_path, int *line) {
    int matched = 0;
    long long position = 0;
    while (matched < n_path) {
        token first = peek(&lx), key_token;
        if (first.kind == END || is_mark(first, '}'))
            break;
        mpt_source_key key = read_key(&lx, &position, &key_token);
        if (same_key(key, key_token, path[matched])) {
            *line = key_token.line;
            matched++;
            if (!is_mark(peek(&lx), '{'))
                break;
            (void)next_token(&lx);
            position = 0;
            continue;
        }
        skip_expression(&lx);
        if (is_mark(peek(&lx), ',') || is_mark(peek(&lx), ';'))
            (void)next_token(&lx);
    }
    return matched;
}

/* ---- the call ---- */

/* Brackets open at this point; `callee` is what stands before a '('. */
typedef struct open_brackets {
    int n;
    token callee[OPEN_MAX];
} open_brackets;

static void track_brackets(open_brackets *open, token t, token callee) {
    if (t.kind != MARK)
        return;
    if (strchr("({[", t.mark)) {
        if (open->n < OPEN_MAX)
            open->callee[open->n] = t.mark == '(' ? callee : (token){.kind = END};
        open->n++;
    } else if (strchr(")}]", t.mark) && open->n > 0) {
        open->n--;
    }
}

int mpt_source_deepest(const char *text, size_t length) {
    lexer lx = {text, text + length, 1};
    int depth = 0, deepest = 0, line = 0;
    for (token t = next_token(&lx); t.kind != END; t = next_token(&lx)) {
        depth += depth_change(t);
        if (depth > deepest && depth <= LUA_DEPTH) {
            deepest = depth;
            line = t.line;
        }
    }
    return deepest > LUA_DEPTH / 2 ? line : 0;
}

int mpt_source_line(const char *text, size_t length, int line, const char *word,
                    const mpt_source_key *path, int n_path) {
    lexer lx = {text, text + length, 1};
    open_brackets open = {0};
    token before = {.kind = END}, earlier = {.kind = END};
    int best = 0, best_line = line;
    for (;;) {
        token t = next_token(&lx);
        if (t.kind == END)
            return best_line;
        token callee = before.kind == STRING && earlier.kind == NAME ? earlier : before;
        if (is_mark(t, '{')) {
            if (callee.kind != NAME && open.n > 0 && open.n <= OPEN_MAX)
                callee = open.callee[open.n - 1];
            if (callee.kind == NAME && callee.line == line) {
                int found_line = line;
                int found = match_path(lx, path, n_path, &found_line);
                /* The word decides between two calls that both have the key. */
                int score = 2 * found + (found > 0 && is_text(callee, NAME, word));
                if (score > best) {
                    best = score;
                    best_line = found_line;
                }
            }
        }
        track_brackets(&open, t, callee);
        earlier = before;
        before = t;
    }
}
