"""What lessons, releases and changes did, as pages say it."""
