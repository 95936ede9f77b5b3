"""From ready nodes to Celery messages, and from hints back to results."""
