/* A list of quantizers as one text: cut where a person means it to be cut. */
#include <string.h>

#include "tools/tools.h"

/* The end of a piece: a comma outside of brackets and quotes, or the end of the text. */
static const char *end_of_piece(const char *at) {
    int depth = 0;
    char quote = 0;
    for (; *at; at++) {
        if (quote) {
            if (*at == '\\' && at[1])
                at++;
            else if (*at == quote)
                quote = 0;
        } else if (*at == '"' || *at == '\'') {
            quote = *at;
        } else if (strchr("{[(", *at)) {
            depth++;
        } else if (strchr("}])", *at)) {
            depth--;
        } else if (*at == ',' && depth <= 0) {
            break;
        }
    }
    return at;
}

mpt_status mpt_tool_split(mpt_arena *arena, const char *formats,
                          const char *out[MPT_TOOL_FORMATS], int *out_n) {
    const char *at = formats;
    *out_n = 0;
    for (bool more = true; more;) {
        const char *end = end_of_piece(at), *last = end;
        more = *end == ',';
        at += strspn(at, " \t\n");
        while (last > at && strchr(" \t\n", last[-1]))
            last--;
        if (last <= at)
            return MPT_FAIL(arena->ctx, MPT_INVALID, MPT_NOWHERE,
                            "formats '%s': there is no quantizer %s", formats,
                            *formats ? "beside one of the commas" : "in it");
        if (*out_n == MPT_TOOL_FORMATS)
            return MPT_FAIL(arena->ctx, MPT_INVALID, MPT_NOWHERE,
                            "formats: more than %d quantizers", MPT_TOOL_FORMATS);
        char *piece = mpt_arena_printf(arena, "%.*s", (int)(last - at), at);
        if (!piece)
            return MPT_OUT_OF_MEMORY;
        out[(*out_n)++] = piece;
        at = end + more;
    }
    return MPT_OK;
}
