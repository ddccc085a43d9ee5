"""The desk: every page on which people read and decide. It may import all apps, and none imports it."""
