-- Two modules that require each other.
return require "circle_one"
