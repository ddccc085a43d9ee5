"""Change the embedding model."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.template.defaultfilters import pluralize
from tqdm import tqdm

from memory.embeddings.registry import find_embedder
from memory.errors import EmbedderError
from memory.index.calibration import calibrate
from memory.index.heuristic_vectors import (
    activate_model,
    count_heuristics_without_vectors,
    delete_other_models,
    get_active_model,
    get_wanted_model,
)
from memory.index.model_change import compare_rankings, make_vectors
from memory.passages.vectors import delete_vectors_of_other_models, make_passage_vectors


class Command(BaseCommand):
    help = (
        "Make vectors with the configured embedder (ERL_EMBEDDER), compare its rankings with those of the current "
        "model on recorded tasks, and then search with the new vectors. Until then, searches use the current model. "
        "You can stop the command and run it again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--compare", type=int, default=50, help="How many recorded tasks to compare. Default: 50.")
        parser.add_argument("--no-activate", action="store_true", help="Stop before the switch.")
        parser.add_argument(
            "--delete-old", action="store_true", help="Delete the vectors of every model but the active one afterwards."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        active, wanted = get_active_model(), get_wanted_model()
        try:
            with tqdm(total=count_heuristics_without_vectors(wanted), desc="heuristics", disable=None) as bar:
                for done in make_vectors(wanted):
                    bar.update(done)
            make_passage_vectors(wanted)
            if wanted.floors is None:
                calibrate(wanted)
            self._compare(active.pk, wanted.pk, limit=options["compare"])
        except EmbedderError as error:
            raise CommandError(f"{error} The model was not changed.") from error
        if active.pk == wanted.pk:
            self.stdout.write(f"All lessons have vectors of {active}, which is the model in use.")
        elif options["no_activate"]:
            self.stdout.write(f"{active} is still in use. Run this again without --no-activate to switch to {wanted}.")
        else:
            activate_model(wanted)
            self.stdout.write(f"{wanted} is used from now on. To go back, set ERL_EMBEDDER back and run this again.")
        if options["delete_old"]:
            # Asked again: the switch above may have changed which model is active.
            deleted = delete_other_models(get_active_model()) + delete_vectors_of_other_models(get_active_model())
            self.stdout.write(f"Deleted {deleted:,} text{pluralize(deleted)} of other models.")

    def _compare(self, active_id: str, wanted_id: str, *, limit: int) -> None:
        old, new = find_embedder(active_id), find_embedder(wanted_id)
        if active_id == wanted_id or old is None or new is None:
            return
        comparison = compare_rankings(old, new, limit=limit)
        self.stdout.write(
            f"On {comparison.tasks} recorded tasks the two models have {comparison.overlap:.0%} of their first ten "
            "lessons in common."
        )
