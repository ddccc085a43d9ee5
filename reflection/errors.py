"""What the reflection app refuses, and what can fail outside of it."""


class ReflectionError(Exception):
    """Base of every refusal and failure of the reflection app."""

    code = "reflection_failed"
    transient = False
