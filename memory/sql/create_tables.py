"""Create all tables of an app at once.

Django builds the models of all tables again after each operation that it applies. With a hundred tables that is most of
the time of a new database; here it is done once for an app.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.migrations import CreateModel
from django.db.migrations.operations.base import Operation, OperationCategory
from django.db.migrations.state import ProjectState


class CreateTables(Operation):
    """Create the tables that these operations lead to, each in its final form; only for an app that has none yet."""

    category = OperationCategory.ADDITION
    serialization_expand_args = ["operations"]

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = operations

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        state.__dict__.pop("apps", None)  # the models that were built; without them operations build none
        for operation in self.operations:
            operation.state_forwards(app_label, state)

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        for model in self._find_models(app_label, schema_editor, to_state):
            schema_editor.create_model(model)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        for model in reversed([*self._find_models(app_label, schema_editor, from_state)]):
            schema_editor.delete_model(model)

    def describe(self) -> str:
        return "Create all tables"

    def _find_models(self, app_label: str, schema_editor: Any, state: ProjectState) -> Iterator[Any]:
        for operation in self.operations:
            if isinstance(operation, CreateModel):
                model = state.apps.get_model(app_label, operation.name)
                if self.allow_migrate_model(schema_editor.connection.alias, model):
                    yield model
