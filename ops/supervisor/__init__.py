"""Starts and keeps up a whole system on one machine."""
