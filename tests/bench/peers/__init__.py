"""The turn of PERF1 in other engines, each in a process and a virtual environment of its own."""
