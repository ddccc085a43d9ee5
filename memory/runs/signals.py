"""The one custom signal: a trajectory was recorded, in the transaction that recorded it."""

from django.dispatch import Signal

# Sent with sender=Trajectory and trajectory=…, reflect=bool, actor=Actor; receivers run inside the transaction.
trajectory_recorded = Signal()
