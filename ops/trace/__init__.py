"""The time line of a run: read from its log and events, laid out, and drawn as SVG, HTML or text."""
