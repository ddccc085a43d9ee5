"""What pages show of reflections, consolidations and webhooks."""
