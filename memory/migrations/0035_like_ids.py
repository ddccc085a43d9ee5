"""Of an id without a lesson only those of the same digits are compared: many ids of a project begin alike."""

from django.db import migrations

FORWARD = r"""
-- As before, but with one condition for names with digits and without, which the index of trigrams can use.
CREATE OR REPLACE FUNCTION memory_named(asked uuid, keys text[], most integer)
RETURNS TABLE (place integer, revision_id uuid, names text) LANGUAGE plpgsql STABLE
SET pg_trgm.strict_word_similarity_threshold = 0.4 AS $$
DECLARE
    key text;
    run text;
    left_near integer := 2;
BEGIN
    place := 0;
    FOREACH key IN ARRAY keys LOOP
        place := place + 1;
        RETURN QUERY SELECT place, n.revision_id, key FROM servable_name n
            WHERE n.project_id = asked AND string_to_array(n.names, ' ') @> ARRAY[key] LIMIT most;
        CONTINUE WHEN FOUND OR length(key) < 6 OR left_near = 0;
        left_near := left_near - 1;
        run := (SELECT part[1] FROM regexp_matches(key, '[0-9]+', 'g') AS part ORDER BY length(part[1]) DESC LIMIT 1);
        RETURN QUERY SELECT place, near.revision_id, near.names FROM (
            SELECT n.revision_id, n.names FROM servable_name n
            WHERE n.project_id = asked AND n.names %>> key AND n.names LIKE '% ' || left(key, 2) || '%'
                AND n.names LIKE '%' || coalesce(run, left(key, 2)) || '%'
            LIMIT 10 * most) AS near
            ORDER BY strict_word_similarity(key, near.names) DESC, near.revision_id LIMIT most;
    END LOOP;
END $$;
"""
REVERSE = r"""
CREATE OR REPLACE FUNCTION memory_named(asked uuid, keys text[], most integer)
RETURNS TABLE (place integer, revision_id uuid, names text) LANGUAGE plpgsql STABLE
SET pg_trgm.strict_word_similarity_threshold = 0.4 AS $$
DECLARE
    key text;
    run text;
    left_near integer := 2;
BEGIN
    place := 0;
    FOREACH key IN ARRAY keys LOOP
        place := place + 1;
        RETURN QUERY SELECT place, n.revision_id, key FROM servable_name n
            WHERE n.project_id = asked AND string_to_array(n.names, ' ') @> ARRAY[key] LIMIT most;
        CONTINUE WHEN FOUND OR length(key) < 6 OR left_near = 0;
        left_near := left_near - 1;
        run := (SELECT part[1] FROM regexp_matches(key, '[0-9]+', 'g') AS part ORDER BY length(part[1]) DESC LIMIT 1);
        RETURN QUERY SELECT place, near.revision_id, near.names FROM (
            SELECT n.revision_id, n.names FROM servable_name n
            WHERE n.project_id = asked AND n.names %>> key AND n.names LIKE '% ' || left(key, 2) || '%'
                AND (run IS NULL OR n.names LIKE '%' || run || '%')
            LIMIT 10 * most) AS near
            ORDER BY strict_word_similarity(key, near.names) DESC, near.revision_id LIMIT most;
    END LOOP;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0034_names_as_they_are")]
    operations = [migrations.RunSQL(FORWARD, REVERSE)]
