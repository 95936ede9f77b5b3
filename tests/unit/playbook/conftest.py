"""The surroundings of a tool, as the tests of tools have them."""

from tests.unit.tools.conftest import make_bench, workspace

__all__ = ["make_bench", "workspace"]
