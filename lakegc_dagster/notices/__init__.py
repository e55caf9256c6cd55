"""The sensors that send messages to people."""
