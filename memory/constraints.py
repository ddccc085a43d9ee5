"""Check constraints shared by the models."""

from django.db.models import CheckConstraint, Q, TextChoices


def one_of(field: str, choices: type[TextChoices], name: str) -> CheckConstraint:
    """Restrict a field to its choices."""
    return CheckConstraint(condition=Q(**{f"{field}__in": choices.values}), name=name)


def not_blank(field: str, name: str) -> CheckConstraint:
    """Require a non-empty text."""
    return CheckConstraint(condition=~Q(**{field: ""}), name=name)
