"""What pages show of agents, their runs and their changes."""
