"""The extensions that the tables need: vectors, trigrams, and GIN indexes that begin with a project."""

from django.contrib.postgres.operations import BtreeGinExtension, TrigramExtension
from django.db import migrations
from pgvector.django import VectorExtension


class Migration(migrations.Migration):
    # The apps of Django come first: each of their changes builds all models again that there are by then.
    dependencies = [
        ("admin", "0003_logentry_add_action_flag_choices"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("sessions", "0001_initial"),
    ]
    operations = [VectorExtension(), TrigramExtension(), BtreeGinExtension()]
