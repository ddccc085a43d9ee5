"""Names of tools, ids, files and error codes, kept beside what a lesson says and found though they are spelled otherwise."""

from django.contrib.postgres.operations import BtreeGinExtension, TrigramExtension
from django.db import migrations, models

# Words in capitals that are no names: those of memory/embeddings/words.py and memory/retrieval/name_match.py (a test
# compares them).
WORDS = """
able about above addition after again against all also always and answer any anyone anything are ask asked
asking assist available because been before being below best between both but can caution certain come
comprehensive concern could critical current currently detail detailed details did does doing don down during
each effective else ensure exact few find finding first for from further get give good great had has have having
hello help helping her here hers herself him himself his how important improve include includes including inform
information interest interested into its itself just keep know last latest let like look looking make may might
more most must myself need needs never new nor not note now off okay once one only other our ours ourselves out
over own particular please popular possible possibly potential prefer provide provided provides providing
question recent recommend recommendation recommendations recommending regard regarding related relevant request
required same say see she should show some someone something specific specifically start such suggest suggesting
suggestion suggestions take tell than thank thanks that the their theirs them themselves then there these they
thing things this those through time todo too top try under until use used user using variety various very want
wanted wants warning was way well were what when where which while who whom why will wish with without would yes
you your yours yourself yourselves
"""
LITTLE_WORDS = "a an and as at be by for in is it of on or the to up use"

FORWARD = r"""
-- What memory/retrieval/name_match.py finds in a text, each by its letters and digits alone: ' cancelorder errconnreset '.
CREATE FUNCTION memory_names(body text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    WITH tokens AS (
        SELECT DISTINCT found[1] AS token FROM regexp_matches(
            left(body, 20000) COLLATE "C", '[A-Za-z0-9]+(?:(?:::|__|[_.:/-])[A-Za-z0-9]+)*', 'g') AS found
    ), parts AS (
        SELECT token AS part FROM tokens
        UNION SELECT regexp_split_to_table(token, '[/:]+') FROM tokens WHERE token NOT LIKE 'REDACTED:%'
        UNION SELECT regexp_split_to_table(token, '[/:.]+') FROM tokens WHERE token NOT LIKE 'REDACTED:%'
    ), keyed AS (
        SELECT part, lower(regexp_replace(part, '[^A-Za-z0-9]', '', 'g')) AS key FROM parts
    ), sized AS (
        SELECT part, key FROM keyed WHERE length(key) BETWEEN 3 AND 64 AND key !~ '^[0-9]+$'
    ), signed AS (
        SELECT DISTINCT key FROM sized
        WHERE part ~ '_|::|[a-z][A-Z]|[A-Za-z]\.[A-Za-z]{2}|/.*/|^[A-Za-z].*[0-9]|[A-Za-z][0-9]|[0-9][A-Za-z]{4}'
           OR part ~ '^[A-Za-z]+(-[A-Za-z]+){2,}$' AND NOT string_to_array(lower(part), '-') && '{LITTLE}'::text[]
    ), capitals AS (
        SELECT DISTINCT key FROM sized
        WHERE part ~ '^[A-Z]+(-[A-Z]+)*$' AND key <> ALL ('{WORDS}'::text[]) AND key NOT IN (SELECT key FROM signed)
    )
    SELECT coalesce(' ' || string_agg(key, ' ' ORDER BY key COLLATE "C") || ' ', '')
    FROM (SELECT key FROM signed
          UNION SELECT key FROM capitals WHERE (SELECT count(*) FROM capitals) <= 5) AS named
$$;

-- Made with the row, by whatever release writes it; for rows that were there before, as soon as they are written to.
CREATE FUNCTION memory_revision_names() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR OLD.names IS NULL OR NEW.names IS DISTINCT FROM OLD.names THEN
        NEW.names := memory_names(
            concat_ws(E'\n', NEW.trigger, NEW.guideline, NEW.avoid, array_to_string(NEW.tags, E'\n')));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER memory_revision_names BEFORE INSERT OR UPDATE ON memory_heuristicrevision
    FOR EACH ROW EXECUTE FUNCTION memory_revision_names();
CREATE TRIGGER memory_names_changed AFTER UPDATE OF names ON memory_heuristicrevision
    FOR EACH ROW WHEN (NEW.served AND OLD.names IS DISTINCT FROM NEW.names) EXECUTE FUNCTION memory_row_changed();

CREATE VIEW servable_name AS
    SELECT id AS revision_id, project_id, names FROM memory_heuristicrevision
    WHERE served AND approved_sha256 = content_sha256 AND names > '';
CREATE VIEW erl_tenant.servable_name AS
    SELECT * FROM servable_name WHERE project_id = (SELECT memory_seen_project());

-- Which lessons have each of the names, by the index of names. Where none has one, for two of them at most, those with
-- one of like trigrams that begins with the same two letters and has the same digits. A row has the name itself, or all
-- names of the lesson where they are to be compared. Nothing is read beyond `most`, or ten times that to be compared.
CREATE FUNCTION memory_named(asked uuid, keys text[], most integer)
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

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_serving') THEN
        GRANT SELECT ON servable_name TO erl_serving;
    END IF;
END $$;
SELECT memory_grant_tenant();
""".replace("{WORDS}", "{" + ",".join(WORDS.split()) + "}").replace(
    "{LITTLE}", "{" + ",".join(LITTLE_WORDS.split()) + "}"
)

REVERSE = """
DROP FUNCTION memory_named(uuid, text[], integer);
DROP VIEW erl_tenant.servable_name, servable_name;
DROP TRIGGER memory_names_changed ON memory_heuristicrevision;
DROP TRIGGER memory_revision_names ON memory_heuristicrevision;
DROP FUNCTION memory_revision_names(), memory_names(text);
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0031_headers_are_an_object")]
    operations = [
        TrigramExtension(),
        BtreeGinExtension(),
        migrations.AddField("heuristicrevision", "names", models.TextField(editable=False, null=True)),
        migrations.RunSQL(FORWARD, REVERSE),
    ]
