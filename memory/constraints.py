"""Constraint builders shared by the models."""

from django.db.models import CheckConstraint, Q, TextChoices


def one_of(field: str, choices: type[TextChoices], name: str) -> CheckConstraint:
    """Hold a field to its choices, in the database."""
    return CheckConstraint(condition=Q(**{f"{field}__in": choices.values}), name=name)


def not_blank(field: str, name: str) -> CheckConstraint:
    """Refuse an empty text, in the database."""
    return CheckConstraint(condition=~Q(**{field: ""}), name=name)
