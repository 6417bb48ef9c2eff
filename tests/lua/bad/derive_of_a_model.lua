-- refused: derive_of_a_model.lua:2: derive: the base is a model without a size; write derive(base, { ... }) with base = require "recipes.NAME" or presets.NAME
return derive(require "models.gpt2", { name = "a" })
