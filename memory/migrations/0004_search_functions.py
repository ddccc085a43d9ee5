"""Texts as vectors of their words, made in the database so that texts and queries cannot drift apart."""

from django.db import migrations

# What memory/embeddings/words.py lists, as PostgreSQL's English stemmer leaves it (a test compares the two).
SHARED_LEXEMES = """
abl addit also answer anyon anyth ask assist avail best certain come comprehens concern could current d
detail effect ensur exact find first get give go good great hello help hi improv includ inform interest keep
know last latest let like ll look m make may might must need new okay one particular pleas popular possibl
potenti prefer provid question re recent recommend regard relat relev request say see show someon someth
specif start suggest take tell thank thing time top tri us use user varieti various ve want way well wish
without would yes
"""

FORWARD = r"""
-- The words of a text: a number for each, and how often it occurs. Names are taken apart (AbleStyle, create_qr_code).
-- The number is drawn from the project too, so that one index of all projects keeps their words apart.
CREATE FUNCTION memory_terms(project uuid, body text) RETURNS TABLE (term integer, occurrences integer)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 60 AS $$
    SELECT 1 + ('x' || substr(md5(project::text || lexeme), 1, 7))::bit(28)::integer AS term,
           sum(coalesce(cardinality(positions), 1))::integer AS occurrences
    FROM unnest(ts_delete(
        to_tsvector('pg_catalog.english', regexp_replace(translate(left(body, 60000), '_', ' '),
                                                         '([a-z])([A-Z])', '\1 \2', 'g')),
        '{SHARED}'::text[])) AS words
    GROUP BY 1
$$;

-- A text as a unit vector: each word weighs as often as it occurs.
CREATE FUNCTION memory_text_vector(project uuid, body text) RETURNS sparsevec
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce('{' || string_agg(term || ':' || occurrences / length, ',') || '}/1000000000',
                    '{}/1000000000')::sparsevec
    FROM (SELECT term, occurrences, sqrt(sum(occurrences::float8 ^ 2) OVER ()) AS length
          FROM memory_terms(project, body)) AS weighted
$$;

-- A task as a unit vector: repeated words weigh by the logarithm, rare words of the project's texts more than common
-- ones. The longer the task, the less rarity counts: the rare words of a long story are its details.
CREATE FUNCTION memory_query_vector(project uuid, body text) RETURNS sparsevec
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH known AS (
        SELECT coalesce((SELECT texts FROM memory_searchstatistics s WHERE s.project_id = project), 0)::float8 AS texts
    ), words AS (
        SELECT w.term, 1 + ln(w.occurrences) AS frequency, least(1, 2 / sqrt(count(*) OVER ())) AS power,
               known.texts, greatest(least(coalesce(c.texts, 0), known.texts), 0) AS present
        FROM memory_terms(project, body) w CROSS JOIN known
        LEFT JOIN memory_termcount c ON c.project_id = project AND c.term = w.term
    ), weighted AS (
        SELECT term, frequency
            * (ln(1 + (texts - present + 0.5) / (present + 0.5)) / ln(1 + (texts + 0.5) / 0.5)) ^ power AS weight
        FROM words
    )
    SELECT coalesce('{' || string_agg(term || ':' || weight / length, ',') || '}/1000000000',
                    '{}/1000000000')::sparsevec
    FROM (SELECT term, weight, sqrt(sum(weight ^ 2) OVER ()) AS length FROM weighted) AS scaled
$$;

CREATE FUNCTION memory_term_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' AND OLD.served AND OLD.term_ids IS NOT NULL THEN
        INSERT INTO memory_termchange (project_id, sign, term_ids) VALUES (OLD.project_id, -1, OLD.term_ids);
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.served AND NEW.term_ids IS NOT NULL THEN
        INSERT INTO memory_termchange (project_id, sign, term_ids) VALUES (NEW.project_id, 1, NEW.term_ids);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER memory_term_changed AFTER INSERT OR DELETE OR UPDATE OF served, term_ids ON memory_heuristicembedding
    FOR EACH ROW EXECUTE FUNCTION memory_term_changed();

-- Count what has changed since the last time. One at a time in a project; who finds another counting leaves it to them.
CREATE FUNCTION memory_count_terms(counted uuid) RETURNS bigint LANGUAGE plpgsql AS $$
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
""".replace("{SHARED}", "{" + ",".join(SHARED_LEXEMES.split()) + "}")

REVERSE = """
DROP TRIGGER memory_term_changed ON memory_heuristicembedding;
DROP FUNCTION memory_count_terms(uuid), memory_term_changed(), memory_query_vector(uuid, text),
    memory_text_vector(uuid, text), memory_terms(uuid, text);
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0003_search_terms")]
    operations = [migrations.RunSQL(FORWARD, REVERSE)]
