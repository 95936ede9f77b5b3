"""Tool routing: which groups and tools a message gets, by keywords, by meaning, or by rank."""
