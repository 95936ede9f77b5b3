"""The execution envelope around every tool call."""
