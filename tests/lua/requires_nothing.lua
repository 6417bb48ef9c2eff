-- A module that returns nothing.
require "empty"
