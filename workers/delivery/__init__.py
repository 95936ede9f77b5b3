"""Results on their way to the channels of users."""
