/* Where the values of a sound recipe are written, for `mptrun explain`.
 *
 * Messages look the line of a key up when something is wrong, once. Here every field of every
 * quantizer is looked up, and each look reads the file's text again: what is read is counted,
 * and past a few MiB the line of the value's call must do. */
#include "lua/bind/convert.h"

enum { PLACES_MAX = 4 << 20, WITHOUT_TEXT = 256 };

mpt_where mpt_convert_place(lua_State *L, int value, int key) {
    mpt_sandbox *box = mpt_sandbox_of(L);
    const mpt_lua_value *said = mpt_lua_value_at(L, value);
    if (box->places >= PLACES_MAX && said->where.file)
        return said->where;
    mpt_where where = mpt_lua_value_where(L, value, key);
    const mpt_lua_chunk *chunk = mpt_sandbox_chunk(box, where.file);
    box->places += chunk ? chunk->length : WITHOUT_TEXT;
    return where;
}

void mpt_convert_place_slot(lua_State *L, int parent, int key, int value, mpt_slot_use *out) {
    const mpt_record *record = mpt_record_find("quantizer");
    const mpt_lua_value *said = mpt_lua_value_at(L, value);
    out->where = said->where.file ? said->where : mpt_convert_place(L, parent, key);
    for (int i = 0; out->set >> i; i++) {
        if (!(out->set >> i & 1))
            continue;
        lua_pushstring(L, record->fields[i].name);
        out->said[i] = mpt_convert_place(L, value, lua_gettop(L));
        lua_pop(L, 1);
    }
}
