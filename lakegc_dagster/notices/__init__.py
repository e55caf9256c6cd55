"""Messages to people: what they say, where they are sent, and the sensors that send them."""
