"""What the embedded servers refuse."""


class EmbeddedServerError(Exception):
    """An embedded server cannot run here; the text says why and what to do."""
