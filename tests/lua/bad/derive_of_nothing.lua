-- refused: derive_of_nothing.lua:2: derive: the base is missing; write derive(base, { ... }) with base = require "recipes.NAME" or presets.NAME
return derive(nil, { name = "a" })
