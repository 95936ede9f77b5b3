"""What the model is shown: agent files, system prompt, the changing tail, the choice of tools."""
