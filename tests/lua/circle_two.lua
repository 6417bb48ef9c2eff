-- See circle.lua.
return require "circle_one"
