-- refused: returns_a_table.lua: the file returned a table, not a recipe; end it with return recipe { version = 1, ... }
return { model = 1 }
