"""What a person may ask of one run: its key, its options, and whether it can be asked for."""
