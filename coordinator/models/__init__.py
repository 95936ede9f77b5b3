"""Which models a run uses, what they get to see, and what is kept of their bills."""
