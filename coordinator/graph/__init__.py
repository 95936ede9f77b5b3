"""Which node may start when. Pure."""
