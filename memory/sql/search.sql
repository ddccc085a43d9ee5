-- What searches need besides vectors of meaning: texts as vectors of their words; names of tools, files and errors; and
-- tokens that tell whether what a project serves has changed.

-- Vectors follow their revision into and out of what agents may be given.
CREATE OR REPLACE FUNCTION memory_revision_serve() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE memory_heuristicembedding SET served = NEW.live WHERE revision_id = NEW.id AND served <> NEW.live;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_revision_serve AFTER UPDATE ON memory_heuristicrevision
    FOR EACH ROW WHEN (OLD.live IS DISTINCT FROM NEW.live) EXECUTE FUNCTION memory_revision_serve();

-- Whether a reviewer approved this task, known by its hash, with the lesson: it is the task that the wording names, or
-- that of approved evidence. What a client records later makes a lesson no easier to find until someone has seen it.
CREATE OR REPLACE FUNCTION memory_task_is_approved(of_revision uuid, run uuid, sha256 text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM memory_heuristicrevision r JOIN memory_evidence e USING (heuristic_id)
        WHERE r.id = of_revision AND e.trajectory_id = run AND e.approved_at IS NOT NULL
    ) OR EXISTS (
        SELECT FROM memory_heuristicrevision r
        WHERE r.id = of_revision AND encode(sha256(convert_to(r.source_task, 'UTF8')), 'hex') = $3
    ) OR EXISTS (
        SELECT FROM memory_heuristicrevision r JOIN memory_evidence e USING (heuristic_id)
        JOIN memory_trajectory t ON t.id = e.trajectory_id
        WHERE r.id = of_revision AND e.approved_at IS NOT NULL
            AND encode(sha256(convert_to(t.task, 'UTF8')), 'hex') = $3)
$$;

CREATE OR REPLACE FUNCTION memory_embedding_serve() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- FOR SHARE waits for an approval under way, so that a vector cannot miss it.
    SELECT live INTO NEW.served FROM memory_heuristicrevision WHERE id = NEW.revision_id FOR SHARE;
    IF NEW.served AND NEW.kind = 'source_task' THEN
        NEW.served := memory_task_is_approved(NEW.revision_id, NEW.trajectory_id, NEW.text_sha256);
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_embedding_serve BEFORE INSERT OR UPDATE OF served, revision_id
    ON memory_heuristicembedding FOR EACH ROW EXECUTE FUNCTION memory_embedding_serve();

-- The tasks of evidence come into service when it is approved, or copied by a merge that was, and go when an undo takes
-- that back or the evidence is gone.
CREATE OR REPLACE FUNCTION memory_evidence_approved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE memory_heuristicembedding e SET served = r.live
    FROM memory_heuristicrevision r
    WHERE r.id = e.revision_id AND r.live AND e.kind = 'source_task'
        AND e.heuristic_id IN (SELECT heuristic_id FROM changed WHERE TG_OP = 'UPDATE' OR approved_at IS NOT NULL);
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_evidence_approved AFTER UPDATE ON memory_evidence
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION memory_evidence_approved();
CREATE OR REPLACE TRIGGER memory_evidence_added AFTER INSERT ON memory_evidence
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION memory_evidence_approved();
CREATE OR REPLACE TRIGGER memory_evidence_gone AFTER DELETE ON memory_evidence
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION memory_evidence_approved();

-- The words of a text: a number for each, its stem, and how often it occurs. Punctuation of ASCII separates words, and
-- names such as AbleStyle, HTTPServer, create_qr_code and math.sqrt are split into words. The number depends on the
-- project too, so that one index of all projects keeps their words apart. Words that every task shares are left out:
-- those of memory/embeddings/words.py, as PostgreSQL's English stemmer leaves them (a test compares the two).
CREATE OR REPLACE FUNCTION memory_terms(project uuid, body text)
RETURNS TABLE (term integer, word text, occurrences integer)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 60 AS $$
    SELECT 1 + ('x' || substr(md5(project::text || lexeme), 1, 7))::bit(28)::integer AS term, min(lexeme) AS word,
           sum(coalesce(cardinality(positions), 1))::integer AS occurrences
    FROM unnest(ts_delete(
        to_tsvector('pg_catalog.english', regexp_replace(
            translate(left(body, 60000), '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', repeat(' ', 32)),
            '([a-z])(?=[A-Z])|([A-Z])(?=[A-Z][a-z])', '\1\2 ', 'g')),
        '{
        abl, addit, also, answer, anyon, anyth, ask, assist, avail, best, certain, come, comprehens, concern, could,
        current, d, detail, effect, ensur, exact, find, first, get, give, go, good, great, hello, help, hi, improv,
        includ, inform, interest, keep, know, last, latest, let, like, ll, look, m, make, may, might, must, need, new,
        okay, one, particular, pleas, popular, possibl, potenti, prefer, provid, question, re, recent, recommend,
        regard, relat, relev, request, say, see, show, someon, someth, specif, start, suggest, take, tell, thank,
        thing, time, top, tri, us, use, user, varieti, various, ve, want, way, well, wish, without, would, yes
        }'::text[])) AS words
    GROUP BY 1
$$;

-- Words with their weights as a unit vector. A fifth of it are the pieces of the words, four letters each (a word begins
-- with a space), so that parts of a compound and forms that the stemmer does not know are alike. A piece weighs as much
-- as the words that have it. Pieces have numbers above those of words. pgvector takes 16,000 numbers.
CREATE OR REPLACE FUNCTION memory_word_vector(terms integer[], words text[], weights float8[]) RETURNS sparsevec
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    WITH weighed AS (
        (SELECT term, weight, 0.8 AS share FROM unnest(terms, weights) AS said (term, weight))
        UNION ALL
        (SELECT (1 << 28) + 1 + (hashtextextended(substr(' ' || word, place, 4), 0) & ((1 << 28) - 1))::integer,
                sum(weight), 0.2
         FROM unnest(words, weights) AS said (word, weight),
              generate_series(1, greatest(length(word) - 2, 1)) AS place
         GROUP BY 1)
        ORDER BY share DESC, weight DESC, term LIMIT 16000
    )
    SELECT coalesce('{' || string_agg(term || ':' || (sqrt(share) * weight / length)::real, ',') || '}/1000000000',
                    '{}/1000000000')::sparsevec
    FROM (SELECT term, weight, share, sqrt(sum(weight ^ 2) OVER (PARTITION BY share)) AS length FROM weighed) AS scaled
$$;

-- A text as a unit vector. Repeated words weigh by the logarithm.
CREATE OR REPLACE FUNCTION memory_text_vector(project uuid, body text) RETURNS sparsevec
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT memory_word_vector(array_agg(term), array_agg(word), array_agg(1 + ln(occurrences::float8)))
    FROM memory_terms(project, body)
$$;

-- What a word of a task weighs: the fewer texts have it, and the more often the task says it, the more. The shorter the
-- task, the more its rare words count, and the longer, the more its repeated ones: the rare words of a long story are
-- its details.
CREATE OR REPLACE FUNCTION memory_word_weight(occurrences integer, words bigint, texts float8, present float8)
RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (ln(1 + (texts - present + 0.5) / (present + 0.5)) / ln(1 + (texts + 0.5) / 0.5)) ^ least(1, 2 / sqrt(words))
           * (1 + ln(occurrences)) ^ (1 - least(1, 2 / sqrt(words)))
$$;

-- A task as a unit vector, by how many of the texts that the project serves contain each word.
CREATE OR REPLACE FUNCTION memory_query_vector(project uuid, body text) RETURNS sparsevec
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH known AS (
        SELECT coalesce((SELECT texts FROM memory_searchstatistics s WHERE s.project_id = project), 0)::float8 AS texts
    ), weighted AS (
        SELECT w.term, w.word, memory_word_weight(w.occurrences, count(*) OVER (), known.texts,
                                                  greatest(least(coalesce(c.texts, 0), known.texts), 0)) AS weight
        FROM memory_terms(project, body) w CROSS JOIN known
        LEFT JOIN memory_termcount c ON c.project_id = project AND c.term = w.term
    )
    SELECT memory_word_vector(array_agg(term), array_agg(word), array_agg(weight)) FROM weighted
$$;

-- Note the words of a text that comes into or goes out of service. They are counted later (memory_count_terms), so that
-- approvals do not wait for each other on the rows of common words.
CREATE OR REPLACE FUNCTION memory_term_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' AND OLD.served AND OLD.term_ids IS NOT NULL THEN
        INSERT INTO memory_termchange (project_id, sign, term_ids) VALUES (OLD.project_id, -1, OLD.term_ids);
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.served AND NEW.term_ids IS NOT NULL THEN
        INSERT INTO memory_termchange (project_id, sign, term_ids) VALUES (NEW.project_id, 1, NEW.term_ids);
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_term_changed AFTER INSERT OR DELETE OR UPDATE OF served, term_ids
    ON memory_heuristicembedding FOR EACH ROW EXECUTE FUNCTION memory_term_changed();

-- Count what has changed since the last call and return how many texts that were. Only one process counts in a project
-- at a time; another returns 0 at once.
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
    IF changed > 0 THEN  -- words weigh differently now, and changes that have piled up are folded
        INSERT INTO memory_servedchange (project_id, token, of_texts) VALUES (counted, memory_new_token(), false);
        PERFORM memory_fold_changes(counted);
    END IF;
    RETURN changed;
END $$;

-- The state of what a project serves is named by the exclusive or of its tokens in memory_servedchange. A change adds a
-- random token; `of_texts` says whether it changed the texts that are searched.
CREATE OR REPLACE FUNCTION memory_new_token() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT hashtextextended(gen_random_uuid()::text, 0)
$$;

-- Replace the tokens of a project by their exclusive or, which leaves the name of its state as it is.
CREATE OR REPLACE FUNCTION memory_fold_changes(folded uuid) RETURNS void LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM memory_servedchange WHERE project_id = folded RETURNING token, of_texts
    )
    INSERT INTO memory_servedchange (project_id, token, of_texts)
    SELECT folded, bit_xor(token), of_texts FROM gone GROUP BY of_texts
$$;

-- Texts that are searched have changed: one token for each project that a statement touches.
CREATE OR REPLACE FUNCTION memory_texts_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token, of_texts)
    SELECT project_id, memory_new_token(), true FROM (SELECT DISTINCT project_id FROM added WHERE served) AS changed;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_texts_added AFTER INSERT ON memory_heuristicembedding
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION memory_texts_added();

CREATE OR REPLACE FUNCTION memory_texts_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token, of_texts)
    SELECT project_id, memory_new_token(), true FROM (
        SELECT project_id FROM added WHERE served UNION SELECT project_id FROM gone WHERE served) AS changed;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_texts_changed AFTER UPDATE ON memory_heuristicembedding
    REFERENCING OLD TABLE AS gone NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION memory_texts_changed();

CREATE OR REPLACE FUNCTION memory_texts_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token, of_texts)
    SELECT project_id, memory_new_token(), true FROM (SELECT DISTINCT project_id FROM gone WHERE served) AS changed;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_texts_gone AFTER DELETE ON memory_heuristicembedding
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION memory_texts_gone();

-- Something else that answers contain has changed: support, names, whether a revision is served (it may have no vector
-- yet), or usefulness by a twentieth or more; less is not worth a new search.
CREATE OR REPLACE FUNCTION memory_row_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token, of_texts) VALUES (NEW.project_id, memory_new_token(), false);
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_support_changed AFTER UPDATE OF approved_support ON memory_heuristic
    FOR EACH ROW WHEN (NEW.kind = 'lesson' AND OLD.approved_support IS DISTINCT FROM NEW.approved_support)
    EXECUTE FUNCTION memory_row_changed();
CREATE OR REPLACE TRIGGER memory_usefulness_changed AFTER UPDATE OF usefulness ON memory_heuristic
    FOR EACH ROW WHEN (round(OLD.usefulness * 20) IS DISTINCT FROM round(NEW.usefulness * 20))
    EXECUTE FUNCTION memory_row_changed();
CREATE OR REPLACE TRIGGER memory_service_changed AFTER UPDATE ON memory_heuristicrevision
    FOR EACH ROW WHEN (OLD.live IS DISTINCT FROM NEW.live) EXECUTE FUNCTION memory_row_changed();
CREATE OR REPLACE TRIGGER memory_names_changed AFTER UPDATE OF names ON memory_heuristicrevision
    FOR EACH ROW WHEN (NEW.live AND OLD.names IS DISTINCT FROM NEW.names) EXECUTE FUNCTION memory_row_changed();

-- The names in a text, each reduced to its letters and digits: ' cancelorder errconnreset '. The rules and both word
-- lists are those of memory/retrieval/name_match.py (a test compares them).
CREATE OR REPLACE FUNCTION memory_names(body text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
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
           OR part ~ '^[A-Za-z]+(-[A-Za-z]+){2,}$' AND NOT string_to_array(lower(part), '-') &&
              '{a, an, and, as, at, be, by, for, in, is, it, of, on, or, the, to, up, use}'::text[]
    ), capitals AS (
        SELECT DISTINCT key FROM sized
        WHERE part ~ '^[A-Z]+(-[A-Z]+)*$' AND key NOT IN (SELECT key FROM signed) AND key <> ALL ('{
            able, about, above, addition, after, again, against, all, also, always, and, answer, any, anyone,
            anything, are, ask, asked, asking, assist, available, because, been, before, being, below, best, between,
            both, but, can, caution, certain, come, comprehensive, concern, could, critical, current, currently,
            detail, detailed, details, did, does, doing, don, down, during, each, effective, else, ensure, exact, few,
            find, finding, first, for, from, further, get, give, good, great, had, has, have, having, hello, help,
            helping, her, here, hers, herself, him, himself, his, how, important, improve, include, includes,
            including, inform, information, interest, interested, into, its, itself, just, keep, know, last, latest,
            let, like, look, looking, make, may, might, more, most, must, myself, need, needs, never, new, nor, not,
            note, now, off, okay, once, one, only, other, our, ours, ourselves, out, over, own, particular, please,
            popular, possible, possibly, potential, prefer, provide, provided, provides, providing, question, recent,
            recommend, recommendation, recommendations, recommending, regard, regarding, related, relevant, request,
            required, same, say, see, she, should, show, some, someone, something, specific, specifically, start,
            such, suggest, suggesting, suggestion, suggestions, take, tell, than, thank, thanks, that, the, their,
            theirs, them, themselves, then, there, these, they, thing, things, this, those, through, time, todo, too,
            top, try, under, until, use, used, user, using, variety, various, very, want, wanted, wants, warning, was,
            way, well, were, what, when, where, which, while, who, whom, why, will, wish, with, without, would, yes,
            you, your, yours, yourself, yourselves
            }'::text[])
    )
    SELECT coalesce(' ' || string_agg(key, ' ' ORDER BY key COLLATE "C") || ' ', '')
    FROM (SELECT key FROM signed
          UNION SELECT key FROM capitals WHERE (SELECT count(*) FROM capitals) <= 5) AS named
$$;

-- Every revision is written with its names; one without them gets them with its next update.
CREATE OR REPLACE FUNCTION memory_revision_names() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.kind = 'mistake' THEN
        NEW.names := '';  -- not searched
    ELSIF TG_OP = 'INSERT' OR OLD.names IS NULL OR NEW.names IS DISTINCT FROM OLD.names THEN
        NEW.names := memory_names(
            concat_ws(E'\n', NEW.trigger, NEW.guideline, NEW.avoid, array_to_string(NEW.tags, E'\n')));
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_revision_names BEFORE INSERT OR UPDATE ON memory_heuristicrevision
    FOR EACH ROW EXECUTE FUNCTION memory_revision_names();

-- Find the served revisions that have each of the names. For the first two names that none has, find those with similar
-- trigrams whose names include one that starts with the same two letters, and the same digits. `names` is the name
-- itself, or all names of the revision where the caller has to compare. At most `most` rows are read for a name, ten
-- times as many for a similar one.
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

-- The words of a run: its task and every text of its steps, for the search of the admin. Paths and names such as
-- get_order are split. The beginning of a long run has to do: a vector of words holds at most a megabyte.
CREATE OR REPLACE FUNCTION memory_run_words(task text, steps jsonb) RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT to_tsvector('pg_catalog.simple', translate(left(
        task || coalesce((SELECT string_agg(' ' || (value #>> '{}'), '')
                          FROM jsonb_path_query(steps, 'strict $.** ? (@.type() == "string")') AS value), ''),
        150000), '_/.:@=-', '       '))
$$;
-- Runs that are still recorded in parts would be read again with every part, so they are found once they have ended.
CREATE INDEX IF NOT EXISTS memory_trajectory_words ON memory_trajectory USING gin (memory_run_words(task, steps))
    WHERE NOT is_open;
-- Searches need no statistics of it, which ANALYZE would read thousands of runs for.
ALTER INDEX memory_trajectory_words ALTER COLUMN 1 SET STATISTICS 0;
