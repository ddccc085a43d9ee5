"""Runs any command-line agent in iterations until a goal is reached."""
