"""Experiments and their looks."""
