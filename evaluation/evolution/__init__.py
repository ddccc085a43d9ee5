"""Evolve an agent on the tasks of an environment, and show whether that helped."""
