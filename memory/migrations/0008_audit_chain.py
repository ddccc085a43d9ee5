"""The audit chain writes itself: triggers append an entry for every decision, key, erasure and quarantine."""

from typing import Any

from django.db import migrations

FORWARD = r"""
-- One link of a project's chain. The lock is taken at the commit (the triggers are deferred) and held for a moment.
CREATE FUNCTION memory_audit_append(of_project uuid, what text, of_subject uuid, said jsonb) RETURNS void
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

-- A review as it was taken; the links to accounts may go, the label stays.
CREATE FUNCTION memory_review_digest(r memory_review) RETURNS text LANGUAGE sql STABLE SET timezone = 'UTC' AS $$
    SELECT encode(sha256(convert_to(jsonb_build_array(
        r.id, r.project_id, r.heuristic_id, r.revision_id, r.decision, r.content_sha256, r.reason, r.reviewer,
        r.seconds_on_screen, r.request_id, r.created_at)::text, 'UTF8')), 'hex')
$$;

CREATE FUNCTION memory_audit_review() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM memory_audit_append(NEW.project_id, 'review', NEW.id, jsonb_build_object(
        'heuristic', NEW.heuristic_id, 'revision', NEW.revision_id, 'decision', NEW.decision,
        'content_sha256', NEW.content_sha256, 'reviewer', NEW.reviewer, 'request_id', NEW.request_id,
        'row_sha256', memory_review_digest(NEW)));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER memory_audit_review AFTER INSERT ON memory_review
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memory_audit_review();

-- Also what goes into or out of service without a review leaves an entry.
CREATE FUNCTION memory_audit_serving() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM memory_audit_append(NEW.project_id, CASE WHEN NEW.served THEN 'served' ELSE 'withdrawn' END, NEW.id,
        jsonb_build_object('heuristic', NEW.heuristic_id, 'content_sha256', NEW.content_sha256,
                           'approved_by', NEW.approved_by));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER memory_audit_serving AFTER UPDATE ON memory_heuristicrevision
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.served IS DISTINCT FROM NEW.served)
    EXECUTE FUNCTION memory_audit_serving();
CREATE CONSTRAINT TRIGGER memory_audit_serving_at_once AFTER INSERT ON memory_heuristicrevision
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.served) EXECUTE FUNCTION memory_audit_serving();

-- Everything about a key except when it was used; its secret's hash only as a hash of the hash.
CREATE FUNCTION memory_audit_key() RETURNS trigger LANGUAGE plpgsql SET timezone = 'UTC' AS $$
DECLARE
    k memory_apikey := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    PERFORM memory_audit_append(k.project_id, 'key_' || lower(TG_OP), k.id, jsonb_build_object(
        'prefix', k.prefix, 'client', k.client, 'scopes', to_jsonb(k.scopes), 'expires_at', k.expires_at,
        'revoked_at', k.revoked_at, 'secret', encode(sha256(convert_to(k.secret_sha256, 'UTF8')), 'hex')));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER memory_audit_key AFTER INSERT OR DELETE ON memory_apikey
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memory_audit_key();
CREATE CONSTRAINT TRIGGER memory_audit_key_change AFTER UPDATE ON memory_apikey
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.project_id, OLD.prefix, OLD.client, OLD.scopes, OLD.expires_at, OLD.revoked_at, OLD.secret_sha256)
          IS DISTINCT FROM
          (NEW.project_id, NEW.prefix, NEW.client, NEW.scopes, NEW.expires_at, NEW.revoked_at, NEW.secret_sha256))
    EXECUTE FUNCTION memory_audit_key();

CREATE FUNCTION memory_audit_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM memory_audit_append(NEW.project_id, 'erasure', NEW.trajectory_id, jsonb_build_object(
        'heuristics', to_jsonb(NEW.heuristic_ids), 'erased_by', NEW.erased_by));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER memory_audit_erasure AFTER INSERT ON memory_erasure
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memory_audit_erasure();

CREATE FUNCTION memory_audit_quarantine() RETURNS trigger LANGUAGE plpgsql SET timezone = 'UTC' AS $$
BEGIN
    PERFORM memory_audit_append(NEW.project_id, 'quarantine', NEW.id, jsonb_build_object(
        'source', NEW.source, 'since', NEW.since, 'heuristics', to_jsonb(NEW.heuristic_ids),
        'retrievals', NEW.retrieval_count, 'ordered_by', NEW.ordered_by));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER memory_audit_quarantine AFTER INSERT ON memory_quarantineorder
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memory_audit_quarantine();

CREATE FUNCTION memory_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER memory_auditentry_keep BEFORE UPDATE OR DELETE ON memory_auditentry
    FOR EACH ROW EXECUTE FUNCTION memory_append_only();
CREATE TRIGGER memory_erasure_keep BEFORE UPDATE OR DELETE ON memory_erasure
    FOR EACH ROW EXECUTE FUNCTION memory_append_only();
CREATE TRIGGER memory_quarantineorder_keep BEFORE UPDATE OR DELETE ON memory_quarantineorder
    FOR EACH ROW EXECUTE FUNCTION memory_append_only();

-- What was decided before there was a chain.
SELECT memory_audit_append(r.project_id, 'review', r.id, jsonb_build_object(
    'heuristic', r.heuristic_id, 'revision', r.revision_id, 'decision', r.decision,
    'content_sha256', r.content_sha256, 'reviewer', r.reviewer, 'request_id', r.request_id,
    'row_sha256', memory_review_digest(r)))
FROM memory_review r ORDER BY r.created_at, r.id;
"""

REVERSE = """
DROP TRIGGER memory_quarantineorder_keep ON memory_quarantineorder;
DROP TRIGGER memory_erasure_keep ON memory_erasure;
DROP TRIGGER memory_auditentry_keep ON memory_auditentry;
DROP TRIGGER memory_audit_quarantine ON memory_quarantineorder;
DROP TRIGGER memory_audit_erasure ON memory_erasure;
DROP TRIGGER memory_audit_key_change ON memory_apikey;
DROP TRIGGER memory_audit_key ON memory_apikey;
DROP TRIGGER memory_audit_serving_at_once ON memory_heuristicrevision;
DROP TRIGGER memory_audit_serving ON memory_heuristicrevision;
DROP TRIGGER memory_audit_review ON memory_review;
DROP FUNCTION memory_append_only(), memory_audit_quarantine(), memory_audit_erasure(), memory_audit_key(),
    memory_audit_serving(), memory_audit_review(), memory_review_digest(memory_review),
    memory_audit_append(uuid, text, uuid, jsonb);
"""

_PERMISSIONS = {
    "Auditor": ["view_auditentry", "view_erasure", "view_quarantineorder"],
    "Operator": ["view_auditentry", "view_erasure", "view_quarantineorder", "quarantine_source"],
}
_NAMES = {
    "view_auditentry": ("auditentry", "Can view audit entry"),
    "view_erasure": ("erasure", "Can view erasure"),
    "view_quarantineorder": ("quarantineorder", "Can view quarantine order"),
    "quarantine_source": ("quarantineorder", "Can quarantine everything learnt from an API key"),
}


def extend_groups(apps: Any, schema_editor: Any) -> None:
    """Let auditors and operators see the new records, and operators pull the brake."""
    for group_name, codenames in _PERMISSIONS.items():
        group, _ = apps.get_model("auth", "Group").objects.get_or_create(name=group_name)
        for codename in codenames:
            model, name = _NAMES[codename]
            kind, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(
                app_label="memory", model=model
            )
            permission, _ = apps.get_model("auth", "Permission").objects.get_or_create(
                content_type=kind, codename=codename, defaults={"name": name}
            )
            group.permissions.add(permission)


class Migration(migrations.Migration):
    dependencies = [("memory", "0007_trust_records")]
    operations = [
        migrations.RunSQL(FORWARD, REVERSE),
        migrations.RunPython(extend_groups, migrations.RunPython.noop),
    ]
