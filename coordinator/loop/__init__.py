"""What happens inside one run: the ReAct loop, and workflows as graphs that code wrote."""
