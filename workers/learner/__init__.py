"""What the system learns from its own runs: short rules for the playbook, from the trace and never from its data."""
