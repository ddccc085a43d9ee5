"""An export of a project as clients read it, table by table."""

from typing import Annotated, Any

from pydantic import BaseModel, Field


class ExportedTable(BaseModel):
    """One table of an export."""

    table: Annotated[str, Field(description="Its file is named after it.")]
    columns: list[str]
    rows: int


class ExportAnswer(BaseModel):
    """What an export holds: the manifest of a folder, but for sizes and hashes."""

    format: str
    version: int
    families: list[str]
    project: Annotated[dict[str, Any], Field(description="The project and its settings.")]
    tables: list[ExportedTable]


class ExportPageAnswer(BaseModel):
    """Some rows of a table."""

    lines: Annotated[list[str], Field(description="One row each, as JSON, in the order of the table's key.")]
    next: Annotated[str | None, Field(description="What `after` has to be for the next page; null after the last.")]
