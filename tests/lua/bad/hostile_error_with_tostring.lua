-- refused: hostile_error_with_tostring.lua: the recipe raised an error that is a table
error(setmetatable({}, { __tostring = function() while true do end end }))
