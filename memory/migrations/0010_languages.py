"""Find words by the rules of each language; what the bundled models know is English."""

from typing import Any

from django.db import migrations

from memory.sql import reinstall

# A model from before knows English alone if it is a bundled one; what a service's knows will be measured.
_FLOORS = """
UPDATE memory_embeddingmodel SET floors = '{"english": 0.25}' WHERE id LIKE 'all-minilm-l6-v2-%'
"""
# The words of plain English texts stay as they are. Those of others are made again: of lessons by the workers, within a
# minute, as after an embedder's failure, and of passages here. Until then they are found by their meaning.
_LESSONS = """
UPDATE memory_heuristicembedding e SET terms = NULL, term_ids = NULL
FROM memory_heuristicrevision r
WHERE r.id = e.revision_id AND e.kind = 'lesson' AND e.terms IS NOT NULL
    AND memory_is_foreign(concat_ws(E'\\n', r.trigger, r.guideline, r.avoid, array_to_string(r.tags, E'\\n')))
"""
_TASKS = """
UPDATE memory_heuristicembedding e SET terms = NULL, term_ids = NULL
FROM memory_heuristicrevision r
WHERE r.id = e.revision_id AND e.kind <> 'lesson' AND e.terms IS NOT NULL
    AND memory_is_foreign(coalesce((SELECT t.task FROM memory_trajectory t WHERE t.id = e.trajectory_id), r.source_task))
"""
_RECENT_TASKS = """
DELETE FROM memory_taskvector v USING memory_trajectory t WHERE t.id = v.trajectory_id AND memory_is_foreign(t.task)
"""
_PASSAGES = """
UPDATE memory_passageembedding e
SET terms = memory_text_vector(e.project_id, p.words), names = memory_names(p.words),
    term_ids = coalesce((SELECT array_agg(term ORDER BY term) FROM memory_terms(e.project_id, p.words)), '{}')
FROM (SELECT id, concat_ws(E'\\n', text, nullif(array_to_string(tags, E'\\n'), '')) AS words FROM memory_passage) AS p
WHERE p.id = e.passage_id AND memory_is_foreign(p.words)
"""


def read_words_again(apps: Any, schema_editor: Any) -> None:
    for statement in (_FLOORS, _LESSONS, _TASKS, _RECENT_TASKS, _PASSAGES):
        schema_editor.execute(statement, None)


class Migration(migrations.Migration):
    dependencies = [("memory", "0009_floors_of_models")]
    operations = [
        reinstall("memory/sql/search.sql"),
        migrations.RunPython(read_words_again, migrations.RunPython.noop),
    ]
