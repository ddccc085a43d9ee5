-- What the database guarantees about decisions, whatever was decided on: each names the exact text that was read, stays as
-- it was written, and is in the audit chain.

-- What is written once. With an argument, erasure may delete it; it announces itself with SET LOCAL erl.erasing = 'on'. With
-- another, a revision takes its reviews with it: they are of many kinds, so that no foreign key could.
CREATE OR REPLACE FUNCTION memory_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' OR TG_NARGS = 0 OR current_setting('erl.erasing', true) IS DISTINCT FROM 'on' THEN
        RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    IF TG_NARGS = 2 THEN
        DELETE FROM memory_review WHERE revision_id = OLD.id;
    END IF;
    RETURN OLD;
END $$;

-- The table of what a kind of review is about. Its revisions are in the table with this name and `revision` at its end.
CREATE OR REPLACE FUNCTION memory_reviewed_table(kind text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN kind IN ('lesson', 'mistake') THEN 'memory_heuristic' WHEN kind = 'block' THEN 'memory_block'
        ELSE 'agents_' || kind END
$$;

-- A review names the hash that its revision has at that moment. One of a block is about a revision that waits.
CREATE OR REPLACE FUNCTION memory_review_bind() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    subjects text := memory_reviewed_table(NEW.kind);
    read_sha256 text;
BEGIN
    EXECUTE format(
        'SELECT content_sha256 FROM %I WHERE id = $1 AND %I = $2 AND project_id = $3 %s FOR SHARE',
        subjects || 'revision', split_part(subjects, '_', 2) || '_id',
        CASE WHEN NEW.kind IN ('lesson', 'mistake') THEN 'AND kind = $4' WHEN NEW.kind = 'block' THEN 'AND status = ''proposed''' END)
    INTO read_sha256 USING NEW.revision_id, NEW.subject_id, NEW.project_id, NEW.kind;
    IF NEW.content_sha256 IS DISTINCT FROM read_sha256 THEN
        RAISE EXCEPTION 'a review has to name the hash of its revision' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_review_bind BEFORE INSERT ON memory_review
    FOR EACH ROW EXECUTE FUNCTION memory_review_bind();

-- A review is appended and never changed. Only its link to a deleted account or key may be cleared; and an erasure, which
-- announces itself, may empty the reason and replace the name of a reviewer who left. The chain then has the new hash.
CREATE OR REPLACE FUNCTION memory_review_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('erl.erasing', true) = 'on' AND NEW.reason IN ('', OLD.reason)
       AND to_jsonb(NEW) - '{reason,reviewer}'::text[] = to_jsonb(OLD) - '{reason,reviewer}'::text[] THEN
        RETURN NEW;
    END IF;
    IF to_jsonb(NEW) - 'reviewer_user_id' - 'reviewer_key_id' IS DISTINCT FROM
       to_jsonb(OLD) - 'reviewer_user_id' - 'reviewer_key_id'
       OR (NEW.reviewer_user_id IS NOT NULL AND NEW.reviewer_user_id IS DISTINCT FROM OLD.reviewer_user_id)
       OR (NEW.reviewer_key_id IS NOT NULL AND NEW.reviewer_key_id IS DISTINCT FROM OLD.reviewer_key_id) THEN
        RAISE EXCEPTION 'a review is append-only' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_review_guard BEFORE UPDATE ON memory_review
    FOR EACH ROW EXECUTE FUNCTION memory_review_guard();
CREATE OR REPLACE TRIGGER memory_review_keep BEFORE DELETE ON memory_review
    FOR EACH ROW EXECUTE FUNCTION memory_append_only('but by erasure');

-- Whether a review approved exactly this text.
CREATE OR REPLACE FUNCTION memory_is_approved(revision uuid, sha256 text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM memory_review v
                   WHERE v.revision_id = revision AND v.decision = 'approve' AND v.content_sha256 = sha256)
$$;

-- The hash of a decision as it was written. It leaves out the links to accounts and keys, which may be cleared.
CREATE OR REPLACE FUNCTION memory_review_digest(review anyelement) RETURNS text
LANGUAGE sql STABLE SET timezone = 'UTC' AS $$
    SELECT encode(sha256(convert_to(
        (to_jsonb(review) - 'reviewer_user_id' - 'reviewer_key_id')::text, 'UTF8')), 'hex')
$$;

-- The hash of a revision of a tool or an agent as it was written, without what is decided about it.
CREATE OR REPLACE FUNCTION memory_revision_digest(revision anyelement) RETURNS text
LANGUAGE sql STABLE SET timezone = 'UTC' AS $$
    SELECT encode(sha256(convert_to((to_jsonb(revision) - 'status')::text, 'UTF8')), 'hex')
$$;

-- Every review is an entry of the audit chain (memory/sql/audit.sql). The database makes the content hash of lessons and
-- blocks itself; of tools and agents, the entry has the hash of the row too.
CREATE OR REPLACE FUNCTION memory_audit_review() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
DECLARE
    revision_row_sha256 text;
BEGIN
    IF NEW.kind IN ('tool', 'agent') THEN
        EXECUTE format('SELECT memory_revision_digest(r) FROM %I r WHERE id = $1', memory_reviewed_table(NEW.kind) || 'revision')
        INTO revision_row_sha256 USING NEW.revision_id;
    END IF;
    PERFORM memory_audit_append(NEW.project_id, 'review', NEW.id, jsonb_build_object(
        'kind', NEW.kind, 'subject', NEW.subject_id, 'revision', NEW.revision_id, 'decision', NEW.decision,
        'content_sha256', NEW.content_sha256, 'reviewer', NEW.reviewer, 'request_id', NEW.request_id,
        'row_sha256', memory_review_digest(NEW), 'revision_row_sha256', revision_row_sha256));
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS memory_audit_review ON memory_review;
CREATE CONSTRAINT TRIGGER memory_audit_review AFTER INSERT ON memory_review
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memory_audit_review();

-- What an erasure took out of a review: the entry has the hash of what is left of it.
CREATE OR REPLACE FUNCTION memory_audit_erased_review() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM memory_audit_append(NEW.project_id, 'review_erased', NEW.id, jsonb_build_object(
        'decision', NEW.decision, 'content_sha256', NEW.content_sha256, 'reason', NEW.reason IS DISTINCT FROM OLD.reason,
        'reviewer', NEW.reviewer IS DISTINCT FROM OLD.reviewer, 'row_sha256', memory_review_digest(NEW)));
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS memory_audit_erased_review ON memory_review;
CREATE CONSTRAINT TRIGGER memory_audit_erased_review AFTER UPDATE ON memory_review DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((OLD.reason, OLD.reviewer) IS DISTINCT FROM (NEW.reason, NEW.reviewer))
    EXECUTE FUNCTION memory_audit_erased_review();
