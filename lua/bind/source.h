/* Where a key stands in the text of a chunk.
 *
 * Lua tells the line of a constructor's call and no more; a message should name the line of the
 * key. This reads the text again, only when something is wrong: plain C over a string, no Lua.
 */
#ifndef MPT_LUA_BIND_SOURCE_H
#define MPT_LUA_BIND_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

/* One step of a key path: a name, or (name NULL) a position counted from 1. */
typedef struct mpt_source_key {
    const char *name;
    long long index;
} mpt_source_key;

/* The line of the key at the end of `path`, inside the table given to the call of `word` on
 * `line`. Where only a beginning of the path is written there (the rest comes from a variable),
 * the line of its last key; where nothing is found, `line`. */
int mpt_source_line(const char *text, size_t length, int line, const char *word,
                    const mpt_source_key *path, int n_path);

/* The line where brackets and blocks are first as deep as Lua's reader goes, or 0 where they
 * never come near it: Lua itself names no line then. */
int mpt_source_deepest(const char *text, size_t length);

#endif
