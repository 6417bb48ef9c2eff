-- refused: syntax.lua:3: unexpected symbol near <eof>
return recipe { model = 
