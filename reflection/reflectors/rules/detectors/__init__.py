"""One module a kind of lesson; each has `find(run) -> list[Detection]` and knows nothing of the others."""
