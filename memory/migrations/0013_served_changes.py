"""A name for what a project serves at the moment, kept by triggers: processes know in one small query what has changed."""

from django.db import migrations, models

FORWARD = r"""
CREATE FUNCTION memory_new_token() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT hashtextextended(gen_random_uuid()::text, 0)
$$;

CREATE FUNCTION memory_texts_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token)
    SELECT project_id, memory_new_token() FROM (SELECT DISTINCT project_id FROM added WHERE served) AS changed;
    RETURN NULL;
END $$;
CREATE FUNCTION memory_texts_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token)
    SELECT project_id, memory_new_token() FROM (
        SELECT project_id FROM added WHERE served UNION SELECT project_id FROM gone WHERE served) AS changed;
    RETURN NULL;
END $$;
CREATE FUNCTION memory_texts_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token)
    SELECT project_id, memory_new_token() FROM (SELECT DISTINCT project_id FROM gone WHERE served) AS changed;
    RETURN NULL;
END $$;
CREATE TRIGGER memory_texts_added AFTER INSERT ON memory_heuristicembedding
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION memory_texts_added();
CREATE TRIGGER memory_texts_changed AFTER UPDATE ON memory_heuristicembedding
    REFERENCING OLD TABLE AS gone NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION memory_texts_changed();
CREATE TRIGGER memory_texts_gone AFTER DELETE ON memory_heuristicembedding
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION memory_texts_gone();

-- How many runs a lesson rests on is part of every answer; a served wording may have no text to search by yet.
CREATE FUNCTION memory_row_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token) VALUES (NEW.project_id, memory_new_token());
    RETURN NULL;
END $$;
CREATE TRIGGER memory_support_changed AFTER UPDATE OF support ON memory_heuristic
    FOR EACH ROW WHEN (OLD.support IS DISTINCT FROM NEW.support) EXECUTE FUNCTION memory_row_changed();
CREATE TRIGGER memory_service_changed AFTER UPDATE OF served ON memory_heuristicrevision
    FOR EACH ROW WHEN (OLD.served IS DISTINCT FROM NEW.served) EXECUTE FUNCTION memory_row_changed();

-- As before, and: rare words weigh differently now, which is a change; a project's changes become one row.
CREATE OR REPLACE FUNCTION memory_count_terms(counted uuid) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    changed bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('memory_count_terms' || counted::text, 0)) THEN
        RETURN 0;
    END IF;
    WITH gone AS (
        DELETE FROM memory_termchange WHERE project_id = counted RETURNING sign, term_ids
    ), terms AS (
        INSERT INTO memory_termcount AS c (project_id, term, texts)
        SELECT counted, term, sum(sign) FROM gone, unnest(term_ids) AS term
        GROUP BY term HAVING sum(sign) <> 0 AND EXISTS (SELECT FROM memory_project WHERE id = counted)
        ON CONFLICT (project_id, term) DO UPDATE SET texts = c.texts + EXCLUDED.texts
    ), texts AS (
        INSERT INTO memory_searchstatistics AS s (project_id, texts)
        SELECT counted, sum(sign) FROM gone
        HAVING count(*) > 0 AND EXISTS (SELECT FROM memory_project WHERE id = counted)
        ON CONFLICT (project_id) DO UPDATE SET texts = s.texts + EXCLUDED.texts
    )
    SELECT count(*) INTO changed FROM gone;
    IF changed > 0 THEN
        WITH gone AS (
            DELETE FROM memory_servedchange WHERE project_id = counted RETURNING token
        )
        INSERT INTO memory_servedchange (project_id, token)
        SELECT counted, coalesce(bit_xor(token), 0) # memory_new_token() FROM gone;
    END IF;
    RETURN changed;
END $$;
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_serving') THEN
        GRANT SELECT ON memory_servedchange TO erl_serving;
    END IF;
END $$;
"""

REVERSE = r"""
DROP TRIGGER memory_service_changed ON memory_heuristicrevision;
DROP TRIGGER memory_support_changed ON memory_heuristic;
DROP TRIGGER memory_texts_gone ON memory_heuristicembedding;
DROP TRIGGER memory_texts_changed ON memory_heuristicembedding;
DROP TRIGGER memory_texts_added ON memory_heuristicembedding;
DROP FUNCTION memory_row_changed(), memory_texts_gone(), memory_texts_changed(), memory_texts_added();
CREATE OR REPLACE FUNCTION memory_count_terms(counted uuid) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    changed bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('memory_count_terms' || counted::text, 0)) THEN
        RETURN 0;
    END IF;
    WITH gone AS (
        DELETE FROM memory_termchange WHERE project_id = counted RETURNING sign, term_ids
    ), terms AS (
        INSERT INTO memory_termcount AS c (project_id, term, texts)
        SELECT counted, term, sum(sign) FROM gone, unnest(term_ids) AS term
        GROUP BY term HAVING sum(sign) <> 0 AND EXISTS (SELECT FROM memory_project WHERE id = counted)
        ON CONFLICT (project_id, term) DO UPDATE SET texts = c.texts + EXCLUDED.texts
    ), texts AS (
        INSERT INTO memory_searchstatistics AS s (project_id, texts)
        SELECT counted, sum(sign) FROM gone
        HAVING count(*) > 0 AND EXISTS (SELECT FROM memory_project WHERE id = counted)
        ON CONFLICT (project_id) DO UPDATE SET texts = s.texts + EXCLUDED.texts
    )
    SELECT count(*) INTO changed FROM gone;
    RETURN changed;
END $$;
DROP FUNCTION memory_new_token();
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0012_members")]
    operations = [
        migrations.CreateModel(
            name="ServedChange",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("project_id", models.UUIDField(db_index=True)),
                ("token", models.BigIntegerField()),
            ],
        ),
        migrations.RunSQL(FORWARD, REVERSE),
    ]
