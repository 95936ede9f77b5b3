"""What the model is shown: agent files, system prompt, the changing tail. Pure but for reading files."""
