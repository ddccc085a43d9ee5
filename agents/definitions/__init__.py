"""Tools and agents as they are written in a Python file, which is read as source and never imported."""
