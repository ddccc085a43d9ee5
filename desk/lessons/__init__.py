"""What pages show of a lesson and of a mistake card, and the forms that decide."""
