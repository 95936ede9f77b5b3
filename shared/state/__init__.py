"""The state Redis: key table, Lua scripts, and thin typed calls of them."""
