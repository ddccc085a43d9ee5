"""The extensions that the tables need: vectors, trigrams, and GIN indexes that begin with a project.

They have a migration of their own so that 0001 can be written again from the models (`python -m tests.fresh_migrations`).
"""

from django.contrib.postgres.operations import BtreeGinExtension, TrigramExtension
from django.db import migrations
from pgvector.django import VectorExtension


class Migration(migrations.Migration):
    operations = [VectorExtension(), TrigramExtension(), BtreeGinExtension()]
