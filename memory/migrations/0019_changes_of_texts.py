"""Tell changes of what is searched from changes of what is said about it: a run's outcome makes no text different."""

from django.db import migrations, models

FORWARD = r"""
CREATE OR REPLACE FUNCTION memory_texts_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token, of_texts)
    SELECT project_id, memory_new_token(), true FROM (SELECT DISTINCT project_id FROM added WHERE served) AS changed;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION memory_texts_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token, of_texts)
    SELECT project_id, memory_new_token(), true FROM (
        SELECT project_id FROM added WHERE served UNION SELECT project_id FROM gone WHERE served) AS changed;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION memory_texts_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token, of_texts)
    SELECT project_id, memory_new_token(), true FROM (SELECT DISTINCT project_id FROM gone WHERE served) AS changed;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION memory_row_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token, of_texts) VALUES (NEW.project_id, memory_new_token(), false);
    RETURN NULL;
END $$;

CREATE FUNCTION memory_fold_changes(folded uuid) RETURNS void LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM memory_servedchange WHERE project_id = folded RETURNING token, of_texts
    )
    INSERT INTO memory_servedchange (project_id, token, of_texts)
    SELECT folded, bit_xor(token), of_texts FROM gone GROUP BY of_texts
$$;

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
    IF changed > 0 THEN  -- words weigh differently now; and changes that pile up are folded
        INSERT INTO memory_servedchange (project_id, token, of_texts) VALUES (counted, memory_new_token(), false);
        PERFORM memory_fold_changes(counted);
    END IF;
    RETURN changed;
END $$;
"""

REVERSE = r"""
DROP FUNCTION memory_fold_changes(uuid);
CREATE OR REPLACE FUNCTION memory_texts_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token)
    SELECT project_id, memory_new_token() FROM (SELECT DISTINCT project_id FROM added WHERE served) AS changed;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION memory_texts_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token)
    SELECT project_id, memory_new_token() FROM (
        SELECT project_id FROM added WHERE served UNION SELECT project_id FROM gone WHERE served) AS changed;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION memory_texts_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token)
    SELECT project_id, memory_new_token() FROM (SELECT DISTINCT project_id FROM gone WHERE served) AS changed;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION memory_row_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token) VALUES (NEW.project_id, memory_new_token());
    RETURN NULL;
END $$;

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
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0018_ranking")]
    operations = [
        migrations.AddField(
            model_name="servedchange",
            name="of_texts",
            field=models.BooleanField(db_default=True, default=True, help_text="Whether other texts are searched now."),
        ),
        migrations.RunSQL(FORWARD, REVERSE),
    ]
