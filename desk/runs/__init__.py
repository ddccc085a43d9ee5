"""What pages show of runs and answers."""
