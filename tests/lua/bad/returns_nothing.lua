-- refused: returns_nothing.lua: the file returned nothing, not a recipe; end it with return recipe { version = 1, ... }
local x = 1
