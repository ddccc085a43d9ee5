"""A row and what it refers to are of one project, and no row moves to another (reliability C1, D12)."""

from django.db import migrations

# What each table refers to: column, table, and what else has to hold of the row `p` that is referred to. Of
# retrievals the key is left to `check_invariants`: they are written in the hottest path.
REFERENCES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "memory_trajectory": (("retrieval_id", "memory_retrieval", ""), ("api_key_id", "memory_apikey", "")),
    "memory_heuristic": (
        ("current_revision_id", "memory_heuristicrevision", "p.heuristic_id = NEW.id"),
        ("superseded_by_id", "memory_heuristic", ""),
    ),
    "memory_heuristicrevision": (("heuristic_id", "memory_heuristic", ""),),
    "memory_evidence": (("heuristic_id", "memory_heuristic", ""), ("trajectory_id", "memory_trajectory", "")),
    "memory_heuristicembedding": (
        ("heuristic_id", "memory_heuristic", ""),
        ("revision_id", "memory_heuristicrevision", "p.heuristic_id = NEW.heuristic_id"),
        ("trajectory_id", "memory_trajectory", ""),
    ),
    "memory_heuristicfeedback": (
        ("heuristic_id", "memory_heuristic", ""),
        ("trajectory_id", "memory_trajectory", ""),
        ("retrieval_id", "memory_retrieval", ""),
    ),
    "memory_review": (
        ("heuristic_id", "memory_heuristic", ""),
        ("revision_id", "memory_heuristicrevision", "p.heuristic_id = NEW.heuristic_id"),
        ("reviewer_key_id", "memory_apikey", ""),
    ),
    "memory_taskvector": (("trajectory_id", "memory_trajectory", ""),),
    "memory_usageverdict": (
        ("heuristic_id", "memory_heuristic", ""),
        ("trajectory_id", "memory_trajectory", ""),
        ("retrieval_id", "memory_retrieval", ""),
    ),
    "memory_mistakecard": (
        ("current_revision_id", "memory_mistakecardrevision", "p.card_id = NEW.id"),
        ("merged_into_id", "memory_mistakecard", ""),
        ("first_seen_id", "memory_trajectory", ""),
        ("last_seen_id", "memory_trajectory", ""),
    ),
    "memory_mistakecardrevision": (("card_id", "memory_mistakecard", ""), ("trajectory_id", "memory_trajectory", "")),
    "memory_mistakesighting": (("card_id", "memory_mistakecard", ""), ("trajectory_id", "memory_trajectory", "")),
    "memory_mistakemerge": (
        ("card_id", "memory_mistakecard", ""),
        ("into_id", "memory_mistakecard", ""),
        ("served_before_id", "memory_mistakecardrevision", "p.card_id = NEW.card_id"),
    ),
    "memory_mistakecardreview": (
        ("card_id", "memory_mistakecard", ""),
        ("revision_id", "memory_mistakecardrevision", "p.card_id = NEW.card_id"),
        ("reviewer_key_id", "memory_apikey", ""),
    ),
    "memory_mistakeembedding": (("card_id", "memory_mistakecard", ""),),
}
# Tables that refer to nothing of a project but belong to one.
ALONE = (
    "memory_apikey",
    "memory_auditentry",
    "memory_erasure",
    "memory_idempotencyrecord",
    "memory_memoryimport",
    "memory_polarityquota",
    "memory_quarantineorder",
    "memory_retrieval",
    "memory_searchindex",
)

FORWARD = r"""
CREATE FUNCTION memory_stays_in_project() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a row of % stays in its project', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;

-- A vector follows its wording also where somebody else writes to it.
CREATE TRIGGER memory_embedding_follow BEFORE UPDATE OF served, revision_id ON memory_heuristicembedding
    FOR EACH ROW EXECUTE FUNCTION memory_embedding_serve();
"""
REVERSE = """
DROP TRIGGER memory_embedding_follow ON memory_heuristicembedding;
DROP FUNCTION memory_stays_in_project();
"""


def keep_apart(table: str, references: tuple[tuple[str, str, str], ...]) -> str:
    """Return the trigger that looks at what a row refers to. A row that is not there is left to the foreign key.

    It has the rights of its owner, so that it sees the rows of other projects whoever writes.
    """
    looks = "\n".join(
        f"""    IF NEW.{column} IS NOT NULL AND EXISTS (SELECT FROM {parent} p WHERE p.id = NEW.{column}
        AND NOT (p.project_id = NEW.project_id{" AND " + more if more else ""})) THEN
        RAISE EXCEPTION '{table}.{column} names a row of something else' USING ERRCODE = 'restrict_violation';
    END IF;"""
        for column, parent, more in references
    )
    columns = [column for column, _, _ in references]
    changed = " OR ".join(f"OLD.{column} IS DISTINCT FROM NEW.{column}" for column in columns)
    return f"""
CREATE FUNCTION {table}_apart() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
{looks}
    RETURN NEW;
END $$;
CREATE TRIGGER {table}_apart BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_apart();
CREATE TRIGGER {table}_apart_still BEFORE UPDATE OF {", ".join(columns)} ON {table}
    FOR EACH ROW WHEN ({changed}) EXECUTE FUNCTION {table}_apart();
"""


def stay(table: str) -> str:
    """Return the trigger that keeps the rows of a table in their projects."""
    return f"""
CREATE TRIGGER {table}_stays BEFORE UPDATE OF project_id ON {table}
    FOR EACH ROW WHEN (OLD.project_id IS DISTINCT FROM NEW.project_id) EXECUTE FUNCTION memory_stays_in_project();
"""


def mix(table: str) -> str:
    """Return what takes the two triggers that look at references away."""
    return f"""
DROP TRIGGER {table}_apart_still ON {table};
DROP TRIGGER {table}_apart ON {table};
DROP FUNCTION {table}_apart();
"""


def leave(table: str) -> str:
    """Return what lets the rows of a table go to other projects again."""
    return f"DROP TRIGGER {table}_stays ON {table};\n"


class Migration(migrations.Migration):
    dependencies = [("memory", "0025_life_cycle")]
    operations = [
        migrations.RunSQL(FORWARD, REVERSE),
        *(
            migrations.RunSQL(keep_apart(table, references), mix(table))
            for table, references in REFERENCES.items()
        ),
        *(migrations.RunSQL(stay(table), leave(table)) for table in (*REFERENCES, *ALONE)),
    ]
