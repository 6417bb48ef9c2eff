-- refused: returns_text.lua: the file returned a text, not a recipe; end it with return recipe { version = 1, ... }
return "bf16"
