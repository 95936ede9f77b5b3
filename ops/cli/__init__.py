"""The command line, `capataz`."""
