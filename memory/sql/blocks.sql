-- What the database guarantees about blocks, their revisions, and passages. Needs review.sql and quarantine.sql.

-- An order in force on the author of this: the client whose key sent it, or the one that recorded the run it is from.
-- Runs with the owner's rights, so that no role overlooks an order.
CREATE OR REPLACE FUNCTION memory_order_on_writer(of_project uuid, label text, run uuid, written timestamptz)
RETURNS uuid LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT o.id FROM memory_quarantineorder o
    WHERE o.project_id = of_project AND written >= o.since
      AND NOT EXISTS (SELECT FROM memory_quarantinelift l WHERE l.order_id = o.id AND l.subject_id IS NULL)
      AND (label = 'key:' || o.client OR EXISTS (
        SELECT FROM memory_trajectory t
        WHERE t.id = run AND t.project_id = of_project AND t.client = o.client
          AND (o.api_key_id IS NULL OR t.api_key_id = o.api_key_id)))
    ORDER BY o.ordered_at, o.id LIMIT 1
$$;

-- The order that forbids that a revision takes effect: one on its writer, or on that of a revision which the restored
-- value was built on. What an order took out of the block since does not count.
CREATE OR REPLACE FUNCTION memory_order_on_revision(r memory_blockrevision) RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT coalesce(
        memory_order_on_writer(r.project_id, r.created_by, r.run_id, coalesce(r.created_at, statement_timestamp())),
        (SELECT memory_order_on_writer(p.project_id, p.created_by, p.run_id, p.created_at)
         FROM memory_blockrevision t JOIN memory_blockrevision p ON p.block_id = t.block_id AND p.number <= t.number
         WHERE t.id = r.restores_id AND p.status IN ('applied', 'approved')
            AND p.number > coalesce((SELECT max(w.number) FROM memory_blockrevision w
                                     WHERE w.block_id = t.block_id AND w.operation = 'withdraw' AND w.number <= t.number), 0)
            AND memory_order_on_writer(p.project_id, p.created_by, p.run_id, p.created_at) IS NOT NULL
         LIMIT 1))
$$;

-- A revision is written once; afterwards its status moves, what it replaced is noted, and an erasure clears its texts.
-- It is as long as the block allows. It takes effect at once only where the policy of the block says so, or when it is
-- the first or takes words out; otherwise only with a review that approved exactly its text.
CREATE OR REPLACE FUNCTION memory_blockrevision_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    of_block memory_block;
    wanted text := encode(sha256(convert_to(NEW.value, 'UTF8')), 'hex');
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.erased_at IS NOT NULL AND OLD.erased_at IS NULL
           AND current_setting('erl.erasing', true) IS NOT DISTINCT FROM 'on' THEN
            RETURN NEW;
        END IF;
        IF to_jsonb(NEW) - '{status,replaced_id,base_id,restores_id}'::text[]
           IS DISTINCT FROM to_jsonb(OLD) - '{status,replaced_id,base_id,restores_id}'::text[]
           OR (NEW.base_id IS NOT NULL AND NEW.base_id IS DISTINCT FROM OLD.base_id)
           OR (NEW.restores_id IS NOT NULL AND NEW.restores_id IS DISTINCT FROM OLD.restores_id)
           OR (NEW.replaced_id IS NOT NULL AND NEW.replaced_id IS DISTINCT FROM OLD.replaced_id
               AND (OLD.status <> 'proposed' OR NEW.status <> 'approved')) THEN
            RAISE EXCEPTION 'a revision of a block is immutable: write a new one' USING ERRCODE = 'restrict_violation';
        END IF;
        IF NEW.status = OLD.status THEN
            RETURN NEW;
        END IF;
        IF (OLD.status || ' ' || NEW.status) <> ALL (
            '{proposed approved, proposed rejected, proposed superseded, overlay superseded}'::text[]) THEN
            RAISE EXCEPTION 'a revision of a block does not move from % to %', OLD.status, NEW.status
                USING ERRCODE = 'restrict_violation';
        END IF;
        IF NEW.status = 'approved' AND NOT memory_is_approved(NEW.id, NEW.content_sha256) THEN
            RAISE EXCEPTION 'a review has to approve exactly this text' USING ERRCODE = 'restrict_violation';
        END IF;
    ELSE
        NEW.content_sha256 := wanted;
        SELECT * INTO of_block FROM memory_block WHERE id = NEW.block_id FOR SHARE;
        IF char_length(NEW.value) > of_block.char_limit THEN
            RAISE EXCEPTION 'the value is longer than the limit of its block' USING ERRCODE = 'check_violation';
        END IF;
        IF NEW.status IN ('approved', 'rejected') OR (NEW.status = 'applied' AND of_block.policy <> 'direct'
            AND NEW.operation NOT IN ('create', 'withdraw')) THEN
            RAISE EXCEPTION 'a block with the policy % takes this edit after a review', of_block.policy
                USING ERRCODE = 'restrict_violation';
        END IF;
    END IF;
    IF NEW.status IN ('applied', 'approved') AND NEW.operation <> 'withdraw' THEN
        IF NOT pg_try_advisory_xact_lock_shared(memory_quarantine_lock(NEW.project_id)) THEN
            RAISE EXCEPTION 'a quarantine order is being placed in this project' USING ERRCODE = 'lock_not_available';
        END IF;
        IF memory_order_on_revision(NEW) IS NOT NULL THEN
            RAISE EXCEPTION 'a quarantine order covers these words' USING ERRCODE = 'restrict_violation';
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_blockrevision_guard BEFORE INSERT OR UPDATE ON memory_blockrevision
    FOR EACH ROW EXECUTE FUNCTION memory_blockrevision_guard();
CREATE OR REPLACE TRIGGER memory_blockrevision_keep BEFORE DELETE ON memory_blockrevision
    FOR EACH ROW EXECUTE FUNCTION memory_append_only('but by erasure', 'with its reviews');

-- What is in effect was applied or approved, and is as long as the block allows. The policy of a block never changes:
-- with another one, what nobody reviewed could be in effect.
CREATE OR REPLACE FUNCTION memory_block_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.policy <> OLD.policy THEN
        RAISE EXCEPTION 'the policy of a block never changes' USING ERRCODE = 'restrict_violation';
    END IF;
    IF EXISTS (SELECT FROM memory_blockrevision r WHERE r.id = NEW.current_id
               AND (r.status NOT IN ('applied', 'approved') OR r.erased_at IS NOT NULL)) THEN
        RAISE EXCEPTION 'this revision cannot be in effect' USING ERRCODE = 'restrict_violation';
    END IF;
    IF EXISTS (SELECT FROM memory_blockrevision r WHERE r.id = NEW.current_id
               AND char_length(r.value) > NEW.char_limit) THEN
        RAISE EXCEPTION 'the value in effect is longer than this limit' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_block_guard BEFORE UPDATE OF current_id, char_limit, policy ON memory_block
    FOR EACH ROW EXECUTE FUNCTION memory_block_guard();

-- A passage never changes, except that an order covers it or no longer does. One of a writer under an order is covered
-- from the start.
CREATE OR REPLACE FUNCTION memory_passage_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.quarantine_order_id := memory_order_on_writer(
            NEW.project_id, NEW.created_by, NEW.run_id, coalesce(NEW.created_at, statement_timestamp()));
    ELSIF to_jsonb(NEW) - 'quarantine_order_id' IS DISTINCT FROM to_jsonb(OLD) - 'quarantine_order_id' THEN
        RAISE EXCEPTION 'a passage is immutable: delete it and write a new one' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_passage_guard BEFORE INSERT OR UPDATE ON memory_passage
    FOR EACH ROW EXECUTE FUNCTION memory_passage_guard();

-- The words of a question about passages, in how many passages of the project each is, and what it weighs. The words of
-- lessons are counted beforehand, for searches are many and approvals few; with passages it is the other way round. What
-- is in a thousand passages or more is counted among the newest 5,000, and taken in proportion.
CREATE OR REPLACE FUNCTION memory_passage_words(project uuid, model text, body text)
RETURNS TABLE (term integer, word text, texts float8, weight float8) LANGUAGE sql STABLE PARALLEL SAFE ROWS 60 AS $$
    WITH known AS MATERIALIZED (
        SELECT count(*)::float8 AS texts FROM memory_passageembedding e
        WHERE e.project_id = project AND e.embedding_model_id = model
    ), counted AS MATERIALIZED (
        SELECT w.term, w.word, w.occurrences, (SELECT count(*)::float8 FROM (
            SELECT FROM memory_passageembedding e
            WHERE e.term_ids @> ARRAY[w.term] AND e.project_id = project AND e.embedding_model_id = model
            LIMIT 1000) AS found) AS texts
        FROM memory_terms(project, body) w
    ), newest AS MATERIALIZED (
        SELECT e.term_ids FROM memory_passageembedding e
        WHERE e.project_id = project AND e.embedding_model_id = model
            AND EXISTS (SELECT FROM counted c WHERE c.texts = 1000)
        ORDER BY e.id DESC LIMIT 5000
    ), frequent AS MATERIALIZED (
        SELECT c.term, known.texts * (SELECT count(*) FROM newest n WHERE n.term_ids @> ARRAY[c.term])
                       / (SELECT count(*) FROM newest) AS texts
        FROM counted c CROSS JOIN known WHERE c.texts = 1000
    ), weighed AS (
        SELECT c.term, c.word, c.occurrences, least(greatest(c.texts, f.texts), known.texts) AS texts, known.texts AS all_texts
        FROM counted c CROSS JOIN known LEFT JOIN frequent f ON f.term = c.term
    )
    SELECT term, word, texts, memory_word_weight(occurrences, count(*) OVER (), all_texts, texts) FROM weighed
$$;
