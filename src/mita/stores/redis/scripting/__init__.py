"""How the Lua scripts in `lua/` get their text: key names, constants and includes."""
