"""Rules that CHECK constraints cannot express: hashes of content, immutable revisions, append-only reviews."""

from django.db import migrations

FORWARD = r"""
-- The hash covers every text that is served. A reviewer approves this hash and nothing else (reliability C2).
CREATE FUNCTION memory_revision_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted text := encode(sha256(convert_to(jsonb_build_array(
        NEW.trigger, NEW.guideline, NEW.avoid, NEW.not_when, NEW.rationale, NEW.polarity, NEW.scope, NEW.task_id,
        to_jsonb(NEW.tags), NEW.source_task)::text, 'UTF8')), 'hex');
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF wanted <> OLD.content_sha256 OR NEW.content_sha256 <> OLD.content_sha256
           OR NEW.id <> OLD.id OR NEW.heuristic_id <> OLD.heuristic_id OR NEW.number <> OLD.number
           OR NEW.project_id <> OLD.project_id OR NEW.created_by <> OLD.created_by THEN
            RAISE EXCEPTION 'a heuristic revision is immutable: write a new revision'
                USING ERRCODE = 'restrict_violation';
        END IF;
        IF OLD.approved_sha256 <> '' AND (NEW.approved_sha256, NEW.approved_by, NEW.approved_at)
           IS DISTINCT FROM (OLD.approved_sha256, OLD.approved_by, OLD.approved_at) THEN
            RAISE EXCEPTION 'an approval is immutable' USING ERRCODE = 'restrict_violation';
        END IF;
    ELSE
        NEW.content_sha256 := wanted;
        NEW.search := setweight(to_tsvector('english', NEW.trigger), 'A')
            || setweight(to_tsvector('english', NEW.guideline), 'B')
            || setweight(to_tsvector('english', array_to_string(NEW.tags, ' ')), 'B')
            || setweight(to_tsvector('english', concat_ws(' ', NEW.avoid, NEW.not_when)), 'C')
            || setweight(to_tsvector('english', NEW.source_task), 'D');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER memory_revision_guard BEFORE INSERT OR UPDATE ON memory_heuristicrevision
    FOR EACH ROW EXECUTE FUNCTION memory_revision_guard();

-- Vectors follow their revision into and out of service.
CREATE FUNCTION memory_revision_serve() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE memory_heuristicembedding SET served = NEW.served WHERE revision_id = NEW.id AND served <> NEW.served;
    RETURN NULL;
END $$;
CREATE TRIGGER memory_revision_serve AFTER UPDATE OF served ON memory_heuristicrevision
    FOR EACH ROW WHEN (OLD.served IS DISTINCT FROM NEW.served) EXECUTE FUNCTION memory_revision_serve();

CREATE FUNCTION memory_embedding_serve() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- FOR SHARE waits for an approval under way, so that a vector cannot miss it.
    SELECT served INTO NEW.served FROM memory_heuristicrevision WHERE id = NEW.revision_id FOR SHARE;
    RETURN NEW;
END $$;
CREATE TRIGGER memory_embedding_serve BEFORE INSERT ON memory_heuristicembedding
    FOR EACH ROW EXECUTE FUNCTION memory_embedding_serve();

-- What people decided is appended, never changed; only an account that went away may be unlinked.
CREATE FUNCTION memory_review_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF to_jsonb(NEW) - 'reviewer_user_id' - 'reviewer_key_id' IS DISTINCT FROM
       to_jsonb(OLD) - 'reviewer_user_id' - 'reviewer_key_id'
       OR (NEW.reviewer_user_id IS NOT NULL AND NEW.reviewer_user_id IS DISTINCT FROM OLD.reviewer_user_id)
       OR (NEW.reviewer_key_id IS NOT NULL AND NEW.reviewer_key_id IS DISTINCT FROM OLD.reviewer_key_id) THEN
        RAISE EXCEPTION 'a review is append-only' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER memory_review_guard BEFORE UPDATE ON memory_review
    FOR EACH ROW EXECUTE FUNCTION memory_review_guard();

-- Both go only by erasure, which says so: SET LOCAL erl.erasing = 'on'.
CREATE FUNCTION memory_only_by_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('erl.erasing', true) IS DISTINCT FROM 'on' THEN
        RAISE EXCEPTION '% is append-only: use the erase service', TG_TABLE_NAME
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER memory_revision_keep BEFORE DELETE ON memory_heuristicrevision
    FOR EACH ROW EXECUTE FUNCTION memory_only_by_erasure();
CREATE TRIGGER memory_review_keep BEFORE DELETE ON memory_review
    FOR EACH ROW EXECUTE FUNCTION memory_only_by_erasure();
"""

REVERSE = """
DROP TRIGGER memory_review_keep ON memory_review;
DROP TRIGGER memory_revision_keep ON memory_heuristicrevision;
DROP TRIGGER memory_review_guard ON memory_review;
DROP TRIGGER memory_embedding_serve ON memory_heuristicembedding;
DROP TRIGGER memory_revision_serve ON memory_heuristicrevision;
DROP TRIGGER memory_revision_guard ON memory_heuristicrevision;
DROP FUNCTION memory_only_by_erasure(), memory_review_guard(), memory_embedding_serve(), memory_revision_serve(),
    memory_revision_guard();
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0001_initial")]
    operations = [migrations.RunSQL(FORWARD, REVERSE)]
