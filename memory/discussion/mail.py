"""Tell people by e-mail, where the operator has set up a mail server."""

from collections.abc import Sequence

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.mail import EmailMessage, get_connection

_FOOTER = "You get this because you are a member of the project in ERL."


def send_notice(user_ids: Sequence[int], said: str, link: str) -> None:
    """Send one sentence with a link to each of these people who has an address. Nothing of the item is in it."""
    if not settings.EMAIL_HOST or not user_ids:
        return
    # One message a person, so that no member learns the addresses of the others.
    users = get_user_model()._default_manager.filter(pk__in=user_ids, is_active=True).exclude(email="")
    body = f"{said}:\n\n{link}\n\n{_FOOTER}\n"
    written = [EmailMessage(subject=said, body=body, to=[user.email]) for user in users]
    get_connection().send_messages(written)
