-- The audit chain (reliability C9): triggers append an entry for every review (review.sql), change of service, key, change of who
-- decides, erasure and quarantine. The triggers are deferred, so that entries are written at commit. They run as the
-- owner of the tables: the application may write no entries itself.

-- Append one link to the chain of a project. Its lock is taken at commit and held for a moment only.
CREATE OR REPLACE FUNCTION memory_audit_append(of_project uuid, what text, of_subject uuid, said jsonb) RETURNS void
LANGUAGE plpgsql SET timezone = 'UTC' AS $$
DECLARE
    last record;
    body text;
    moment timestamptz := clock_timestamp();
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('memory_audit:' || of_project::text, 0));
    SELECT a.number, a.sha256 INTO last FROM memory_auditentry a
    WHERE a.project_id = of_project ORDER BY a.number DESC LIMIT 1;
    body := jsonb_build_object(
        'project', of_project, 'number', coalesce(last.number, 0) + 1, 'at', moment, 'kind', what,
        'subject', of_subject, 'actor', coalesce(current_setting('erl.actor', true), ''), 'role', session_user,
        'said', said)::text;
    INSERT INTO memory_auditentry
        (project_id, number, kind, subject_id, content, previous_sha256, sha256, created_at)
    VALUES (of_project, coalesce(last.number, 0) + 1, what, of_subject, body, coalesce(last.sha256, repeat('0', 64)),
            encode(sha256(convert_to(coalesce(last.sha256, repeat('0', 64)) || E'\n' || body, 'UTF8')), 'hex'), moment);
END $$;

-- Append some columns of a row: when it is inserted, and when one of them changes. The arguments are the kind of the entry;
-- a column whose value ends the kind, or nothing; the column that says what it is about; and the columns.
CREATE OR REPLACE FUNCTION memory_audit_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    before jsonb := to_jsonb(OLD);
    after jsonb := to_jsonb(NEW);
    said jsonb;
BEGIN
    SELECT jsonb_object_agg(name, after -> name) INTO said FROM unnest(TG_ARGV[3:]) AS name;
    IF TG_OP = 'INSERT' OR said <> (SELECT jsonb_object_agg(name, before -> name) FROM unnest(TG_ARGV[3:]) AS name) THEN
        PERFORM memory_audit_append(
            NEW.project_id, TG_ARGV[0] || coalesce(after ->> TG_ARGV[1], ''), (after ->> TG_ARGV[2])::uuid, said);
    END IF;
    RETURN NULL;
END $$;

-- A revision that goes into or out of service, with a review or without.
CREATE OR REPLACE FUNCTION memory_audit_serving() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.served <> coalesce(OLD.served, false) THEN
        PERFORM memory_audit_append(
            NEW.project_id, CASE WHEN NEW.served THEN 'served' ELSE 'withdrawn' END, NEW.id, jsonb_build_object(
                'heuristic', NEW.heuristic_id, 'content_sha256', NEW.content_sha256, 'approved_by', NEW.approved_by));
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS memory_audit_serving ON memory_heuristicrevision;
CREATE CONSTRAINT TRIGGER memory_audit_serving AFTER INSERT OR UPDATE OF served ON memory_heuristicrevision
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memory_audit_serving();

-- Everything about a key, its owner included, except when it was last used. Of its secret's hash only a hash is kept.
CREATE OR REPLACE FUNCTION memory_audit_key() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    k memory_apikey := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    PERFORM memory_audit_append(k.project_id, 'key_' || lower(TG_OP), k.id, jsonb_build_object(
        'prefix', k.prefix, 'client', k.client, 'scopes', to_jsonb(k.scopes), 'expires_at', k.expires_at,
        'revoked_at', k.revoked_at, 'owner', k.created_by_id,
        'secret', encode(sha256(convert_to(k.secret_sha256, 'UTF8')), 'hex')));
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS memory_audit_key ON memory_apikey;
CREATE CONSTRAINT TRIGGER memory_audit_key AFTER INSERT OR DELETE ON memory_apikey
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memory_audit_key();
DROP TRIGGER IF EXISTS memory_audit_key_change ON memory_apikey;
CREATE CONSTRAINT TRIGGER memory_audit_key_change AFTER UPDATE ON memory_apikey
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.project_id, OLD.prefix, OLD.client, OLD.scopes, OLD.expires_at, OLD.revoked_at, OLD.secret_sha256,
           OLD.created_by_id)
          IS DISTINCT FROM
          (NEW.project_id, NEW.prefix, NEW.client, NEW.scopes, NEW.expires_at, NEW.revoked_at, NEW.secret_sha256,
           NEW.created_by_id))
    EXECUTE FUNCTION memory_audit_key();

DROP TRIGGER IF EXISTS memory_audit_erasure ON memory_erasure;
CREATE CONSTRAINT TRIGGER memory_audit_erasure AFTER INSERT ON memory_erasure DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION memory_audit_row('erasure', '', 'trajectory_id', 'heuristic_ids', 'receipt', 'erased_by');

-- Who decides: settings of a project, memberships, and requests to change either or a key. A membership in every
-- project, and what concerns every project, is in every chain.
CREATE OR REPLACE FUNCTION memory_audit_settings() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp SET timezone = 'UTC' AS $$
BEGIN
    IF (NEW.four_eyes, NEW.mistake_card_policy, NEW.archived_at) IS DISTINCT FROM
       (coalesce(OLD.four_eyes, false), coalesce(OLD.mistake_card_policy, 'people'), OLD.archived_at) THEN
        PERFORM memory_audit_append(NEW.id, 'settings', NEW.id, jsonb_build_object(
            'four_eyes', NEW.four_eyes, 'mistake_card_policy', NEW.mistake_card_policy, 'archived_at', NEW.archived_at));
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS memory_audit_settings ON memory_project;
CREATE CONSTRAINT TRIGGER memory_audit_settings AFTER INSERT OR UPDATE ON memory_project
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memory_audit_settings();

CREATE OR REPLACE FUNCTION memory_audit_membership() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
DECLARE
    m memory_projectmembership := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    PERFORM memory_audit_append(p.id, 'member_' || lower(TG_OP), NULL, jsonb_build_object(
        'user', m.user_id, 'username', (SELECT username FROM auth_user WHERE id = m.user_id), 'role', m.role,
        'every_project', m.project_id IS NULL))
    FROM memory_project p WHERE m.project_id IS NULL OR p.id = m.project_id ORDER BY p.id;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS memory_audit_membership ON memory_projectmembership;
CREATE CONSTRAINT TRIGGER memory_audit_membership AFTER INSERT OR UPDATE OR DELETE ON memory_projectmembership
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memory_audit_membership();

CREATE OR REPLACE FUNCTION memory_audit_rulechange() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.status IS DISTINCT FROM OLD.status THEN
        PERFORM memory_audit_append(p.id, 'change_' || NEW.status, NEW.id, jsonb_build_object(
            'kind', NEW.kind, 'values', NEW.values, 'requested_by', NEW.requested_by, 'decided_by', NEW.decided_by))
        FROM memory_project p WHERE NEW.project_id IS NULL OR p.id = NEW.project_id ORDER BY p.id;
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS memory_audit_rulechange ON memory_rulechange;
CREATE CONSTRAINT TRIGGER memory_audit_rulechange AFTER INSERT OR UPDATE ON memory_rulechange
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memory_audit_rulechange();

DROP TRIGGER IF EXISTS memory_audit_quarantine ON memory_quarantineorder;
CREATE CONSTRAINT TRIGGER memory_audit_quarantine AFTER INSERT ON memory_quarantineorder DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION memory_audit_row(
        'quarantine', '', 'id', 'source', 'since', 'heuristic_ids', 'retrieval_count', 'ordered_by');

-- Audit entries, erasures and quarantine orders are never changed or deleted.
CREATE OR REPLACE TRIGGER memory_auditentry_keep BEFORE UPDATE OR DELETE ON memory_auditentry
    FOR EACH ROW EXECUTE FUNCTION memory_append_only();
CREATE OR REPLACE TRIGGER memory_erasure_keep BEFORE UPDATE OR DELETE ON memory_erasure
    FOR EACH ROW EXECUTE FUNCTION memory_append_only();
CREATE OR REPLACE TRIGGER memory_quarantineorder_keep BEFORE UPDATE OR DELETE ON memory_quarantineorder
    FOR EACH ROW EXECUTE FUNCTION memory_append_only();
