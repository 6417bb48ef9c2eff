-- See requires_broken.lua.
return nvfp4 {
  roundng = "nearest" }
