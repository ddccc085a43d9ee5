-- What the database guarantees about quarantine orders (reliability D3): it knows which wordings the words of each come
-- from, and serves nothing that an order covers. Needs heuristics.sql and audit.sql.

-- The hash of the words of a text, without case, punctuation and spaces.
CREATE OR REPLACE FUNCTION memory_words_sha256(body text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT encode(sha256(convert_to(lower(btrim(regexp_replace(body, '\W+', ' ', 'g'))), 'UTF8')), 'hex')
$$;

CREATE OR REPLACE FUNCTION memory_revision_hash_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.words_sha256 := memory_words_sha256(CASE NEW.kind
        WHEN 'mistake' THEN concat_ws(' ', NEW.avoid, NEW.guideline, NEW.rationale) ELSE NEW.guideline END);
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_revision_hash_words
    BEFORE INSERT OR UPDATE OF words_sha256, guideline, avoid, rationale
    ON memory_heuristicrevision FOR EACH ROW EXECUTE FUNCTION memory_revision_hash_words();

-- A wording descends from itself, from the wordings that its author named in `lineage`, from the first wording of the
-- project with the same words, and from one of its own lesson: from those with the same text or, where there is none,
-- from the one before it. A part of a mistake card counts as the words of a lesson that says just that. So the words keep
-- their lineage on every way that copies or edits them.
CREATE OR REPLACE FUNCTION memory_wording_lineage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NOT NEW.lineage @> OLD.lineage THEN
            RAISE EXCEPTION 'the lineage of a wording only grows' USING ERRCODE = 'restrict_violation';
        END IF;
        IF NEW.words_sha256 = OLD.words_sha256 THEN
            RETURN NEW;
        END IF;
    END IF;
    WITH own AS (
        SELECT number, content_sha256, lineage FROM memory_heuristicrevision
        WHERE heuristic_id = NEW.heuristic_id AND number < NEW.number
    ), ancestors AS (
        SELECT NEW.lineage || NEW.id AS ids
        UNION ALL
        SELECT lineage FROM memory_heuristicrevision WHERE id = ANY (NEW.lineage)
        UNION ALL
        (SELECT lineage FROM (
            SELECT created_at, id, lineage FROM memory_heuristicrevision
            WHERE project_id = NEW.project_id AND words_sha256 = NEW.words_sha256 AND id <> NEW.id
            UNION ALL
            SELECT created_at, id, lineage FROM memory_heuristicrevision
            WHERE NEW.kind = 'lesson' AND kind = 'mistake' AND project_id = NEW.project_id
                AND NEW.words_sha256 IN (
                    memory_words_sha256(guideline), memory_words_sha256(avoid), memory_words_sha256(rationale))
            UNION ALL
            SELECT created_at, id, lineage FROM memory_heuristicrevision
            WHERE NEW.kind = 'mistake' AND kind = 'lesson' AND project_id = NEW.project_id
                AND words_sha256 IN (memory_words_sha256(NEW.guideline), memory_words_sha256(NEW.avoid),
                                     memory_words_sha256(NEW.rationale))
         ) AS same_words ORDER BY created_at, id LIMIT 1)
        UNION ALL
        SELECT lineage FROM own
        WHERE content_sha256 = NEW.content_sha256
           OR number = (SELECT max(number) FROM own)
              AND NOT EXISTS (SELECT FROM own WHERE content_sha256 = NEW.content_sha256)
    )
    SELECT array_agg(DISTINCT id ORDER BY id) INTO NEW.lineage FROM ancestors, unnest(ids) AS id;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_revision_lineage BEFORE INSERT OR UPDATE OF lineage, guideline, avoid, rationale
    ON memory_heuristicrevision FOR EACH ROW EXECUTE FUNCTION memory_wording_lineage();

-- Who said the words: the client whose key sent them. Runs that a lesson was written from, or that reported
-- a mistake, are named by the service.
CREATE OR REPLACE FUNCTION memory_revision_origin() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_wordorigin (id, project_id, wording_id, client, said_at)
    VALUES (gen_random_uuid(), NEW.project_id, NEW.id, substr(NEW.created_by, 5), NEW.created_at)
    ON CONFLICT DO NOTHING;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_revision_origin BEFORE INSERT ON memory_heuristicrevision
    FOR EACH ROW WHEN (NEW.kind = 'lesson' AND NEW.created_by LIKE 'key:%') EXECUTE FUNCTION memory_revision_origin();

-- The wordings whose words a source said since a time. With a key, those of the runs that it recorded; what a client
-- sent itself names the client alone, so it counts for each of its keys.
CREATE OR REPLACE FUNCTION memory_wordings_of(of_project uuid, of_client text, of_key uuid, since timestamptz)
RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
    SELECT wording_id FROM memory_wordorigin
    WHERE project_id = of_project AND said_at >= since AND client = of_client
      AND (of_key IS NULL OR trajectory_id IS NULL OR api_key_id = of_key)
$$;

-- An order in force that covers words with this lineage, or NULL. An order covers a wording if any that it descends from
-- is among those the order took, or was said by its source since its time, also after the order. Runs with the owner's
-- rights, so that no role overlooks an order.
CREATE OR REPLACE FUNCTION memory_covering_order(of_project uuid, of_lineage uuid[]) RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT o.id FROM memory_quarantineorder o
    WHERE o.project_id = of_project
      AND NOT EXISTS (SELECT FROM memory_quarantinelift l WHERE l.order_id = o.id AND l.subject_id IS NULL)
      AND EXISTS (
        SELECT FROM unnest(of_lineage) AS w (id)
        WHERE (w.id = ANY (o.wording_ids) OR EXISTS (
                SELECT FROM memory_wordorigin g
                WHERE g.wording_id = w.id AND g.said_at >= o.since AND g.client = o.client
                  AND (o.api_key_id IS NULL OR g.trajectory_id IS NULL OR g.api_key_id = o.api_key_id)))
          AND NOT EXISTS (SELECT FROM memory_quarantinelift l WHERE l.order_id = o.id AND w.id = ANY (l.wording_ids)))
    ORDER BY o.ordered_at, o.id LIMIT 1
$$;

-- The lock between orders and what goes into service: an order waits for the transactions that serve something, and then
-- takes that too. A transaction that serves something while an order is being placed is refused and tries again.
CREATE OR REPLACE FUNCTION memory_quarantine_lock(of_project uuid) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended('memory_quarantine:' || of_project::text, 0)
$$;

-- Nothing that an order covers is approved or goes into service, whatever tries it. Its name comes after those of the
-- triggers above, since triggers run in the order of their names.
CREATE OR REPLACE FUNCTION memory_refuse_covered() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    covering uuid;
BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(memory_quarantine_lock(NEW.project_id)) THEN
        RAISE EXCEPTION 'a quarantine order is being placed in this project' USING ERRCODE = 'lock_not_available';
    END IF;
    covering := memory_covering_order(NEW.project_id, NEW.lineage);
    IF covering IS NOT NULL THEN
        RAISE EXCEPTION 'the quarantine order % covers these words', covering USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_revision_refuse_covered BEFORE INSERT ON memory_heuristicrevision
    FOR EACH ROW WHEN (NEW.served OR NEW.live OR NEW.approved_sha256 <> '') EXECUTE FUNCTION memory_refuse_covered();
CREATE OR REPLACE TRIGGER memory_revision_refuse_covered_later BEFORE UPDATE ON memory_heuristicrevision
    FOR EACH ROW WHEN (NEW.served AND NOT OLD.served OR NEW.live AND NOT OLD.live OR NEW.approved_sha256 <> '' AND OLD.approved_sha256 = '')
    EXECUTE FUNCTION memory_refuse_covered();

-- Origins and lifts are never changed or deleted; a lift is an entry of the audit chain.
CREATE OR REPLACE TRIGGER memory_wordorigin_keep BEFORE UPDATE OR DELETE ON memory_wordorigin
    FOR EACH ROW EXECUTE FUNCTION memory_append_only();
CREATE OR REPLACE TRIGGER memory_quarantinelift_keep BEFORE UPDATE OR DELETE ON memory_quarantinelift
    FOR EACH ROW EXECUTE FUNCTION memory_append_only();
DROP TRIGGER IF EXISTS memory_audit_lift ON memory_quarantinelift;
CREATE CONSTRAINT TRIGGER memory_audit_lift AFTER INSERT ON memory_quarantinelift DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION memory_audit_row(
        'quarantine_lift', '', 'id', 'order_id', 'subject_id', 'wording_ids', 'lifted_by');
