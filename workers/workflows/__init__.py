"""Deterministic workflows: graphs that code wrote beforehand; see `workers.workflows.define` for how."""
