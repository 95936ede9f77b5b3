"""The tools that models call, one module a group; see `workers.declare` for how one is declared."""
