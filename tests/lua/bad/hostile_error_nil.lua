-- refused: hostile_error_nil.lua: the recipe raised an error that is a nil
error(nil)
