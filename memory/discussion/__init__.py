"""What people say about an item of the inbox, and who of them sees to it."""
