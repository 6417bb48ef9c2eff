-- refused: hostile_error_object.lua: the recipe raised an error that is a table
error({ "a table" })
