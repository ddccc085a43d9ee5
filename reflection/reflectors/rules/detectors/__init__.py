"""One module a kind of lesson; each has `find(run) -> list[Finding]` and knows nothing of the others."""
