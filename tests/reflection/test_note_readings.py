"""Notes of agents about what went wrong: an instruction stays one, an event becomes advice or is left to people."""

import pytest

from reflection.reflectors.rules.note_advice import advise

# Each note with the advice that it becomes, "" for none.
NOTES = [
    ("Always check the fare class before cancelling", "Always check the fare class before cancelling."),
    (
        "Never call cancel_reservation without confirming with the user",
        "Never call cancel_reservation without confirming with the user.",
    ),
    ("Check the order status before issuing a refund", "Check the order status before issuing a refund."),
    ("Do not retry the payment call after a timeout", "Do not retry the payment call after a timeout."),
    (
        "I forgot to verify the user's identity before refunding",
        "Remember to verify the user's identity before refunding.",
    ),
    ("I should have checked the inventory first", "Check the inventory first."),
    ("Should have called get_user_details before update_user", "Call get_user_details before update_user."),
    ("Not have called the API twice", ""),
    ("Not calling get_order before refund", "Call get_order before refund."),
    ("Calling refund twice for the same order", "Do not call refund twice for the same order."),
    (
        "I cancelled the booking before asking for confirmation",
        "Do not cancel the booking before asking for confirmation.",
    ),
    ("The refund was issued before the identity was checked", ""),
    ("Make sure to page through all results", "Make sure to page through all results."),
    ("Next time, I will not retry the payment call", "Do not retry the payment call."),
    ("Next time I will read the file before editing it", "Read the file before editing it."),
    ("You must use ISO dates", ""),
    ("Don't trust the cached price", "Don't trust the cached price."),
    ("Assumed that the first result was the right one", ""),
    ("Used the wrong endpoint for exports", ""),
    ("Why did the tool return 404?", ""),
    ("Avoid deleting rows without a WHERE clause", ""),
    ("Skipped the validation step", "Do not skip the validation step."),
    ("Ran the migration without taking a backup", "Do not run the migration without taking a backup."),
    ("It would have been better to ask the user for the date", "Ask the user for the date."),
    ("Immer zuerst die Kundennummer prüfen", ""),
    ("Ich habe vergessen, die Adresse zu prüfen", ""),
    ("Failed to paginate, so missed half of the records", ""),
    ("Only the first page of results was read", ""),
    ("Be careful with time zones", "Be careful with time zones."),
    ("Use `rg` instead of grep for large repositories", "Use `rg` instead of grep for large repositories."),
    ("Remember to close the cursor", "Remember to close the cursor."),
    ("The agent did not confirm the amount before charging the card", "Confirm the amount before charging the card."),
    ("Please escalate to a human when the customer is angry", "Please escalate to a human when the customer is angry."),
    ("If the order is older than 30 days, refuse the refund", ""),
    ("When the build is red, do not merge", "When the build is red, do not merge."),
    ("Tried to book without checking availability", "Do not try to book without checking availability."),
    ("Did not ask for confirmation before cancelling", "Ask for confirmation before cancelling."),
    ("Never ask for the full card number", "Never ask for the full card number."),
    ("Wait for the lock before writing", "Wait for the lock before writing."),
    ("The tests were not run before committing", "The tests should be run before committing."),
    ("Double-check totals after applying a coupon", "Double-check totals after applying a coupon."),
    ("Must not send the e-mail before approval", "Do not send the e-mail before approval."),
    ("I never checked whether the flight was refundable", ""),
    ("Stop after three failed attempts", "Stop after three failed attempts."),
    ("Instead of searching again, ask the user", ""),
    ("')[0])", ""),
]


@pytest.mark.parametrize(("note", "advice"), NOTES)
def test_note_of_a_mistake_is_read_as_it_is_meant(note: str, advice: str) -> None:
    read = advise(note, kind="mistake")

    assert (read.what if read else "") == advice


@pytest.mark.parametrize(
    "note",
    [
        "Always check the fare class before cancelling",
        "Do not retry the payment call after a timeout",
        "Should have called get_user_details before update_user",
        "Make sure to page through all results",
    ],
)
def test_instruction_is_the_same_whatever_it_was_noted_as(note: str) -> None:
    assert advise(note, kind="success") == advise(note, kind="mistake")


def test_advice_never_loses_its_condition() -> None:
    assert advise("If the order is older than 30 days, refuse the refund", kind="mistake") is None
