"""Measurements. Each prints `BENCH <id> key=value …` with the floor measured in the same run. No asserts."""
