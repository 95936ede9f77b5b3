"""The Celery side: tools, vision, playbook-learner, workflows."""
