"""Looking at images, on a queue of its own."""
