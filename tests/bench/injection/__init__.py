"""What injected instructions reach: AgentDojo's tasks, run by a whole system whose model obeys every injection."""
