-- refused: derive_of_nothing.lua:2: derive: takes one table; write derive(base, { ... }) with base = require "recipes.NAME"
return derive(nil, { name = "a" })
