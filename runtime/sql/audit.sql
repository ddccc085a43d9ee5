-- Agents in the audit chain: what people decided about calls, which revision of a tool is in force, and what an agent
-- is. The chain is in memory/sql/audit.sql, the comparison with the rows in runtime/audit.py.

-- A decision about a call that waited, or of which it was not known whether it happened. A policy decides where no
-- person did: the time was up, or the run had ended.
CREATE OR REPLACE FUNCTION agents_audit_approval() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.status <> coalesce(OLD.status, 'pending') THEN
        PERFORM memory_audit_append(NEW.project_id, 'call_' || NEW.status, NEW.id, jsonb_build_object(
            'run', NEW.run_id, 'effect', NEW.effect_id, 'arguments_sha256', NEW.arguments_sha256,
            'about_unknown', NEW.about_unknown, 'by', NEW.decided_by, 'row_sha256', memory_review_digest(NEW)));
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS agents_audit_approval ON agents_approval;
CREATE CONSTRAINT TRIGGER agents_audit_approval AFTER INSERT OR UPDATE ON agents_approval
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION agents_audit_approval();

-- Another revision of a tool is in force. It may have been approved long ago.
DROP TRIGGER IF EXISTS agents_audit_tool ON agents_tool;
CREATE CONSTRAINT TRIGGER agents_audit_tool AFTER UPDATE ON agents_tool DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION memory_audit_row('tool_in_force', '', 'id', 'name', 'current_id');

-- An agent is made, has another revision, or starts no more runs.
CREATE OR REPLACE FUNCTION agents_audit_agent() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    r agents_agentrevision;
BEGIN
    SELECT * INTO r FROM agents_agentrevision WHERE id = NEW.current_id;
    PERFORM memory_audit_append(
        NEW.project_id,
        CASE WHEN OLD.archived_at IS DISTINCT FROM NEW.archived_at THEN 'agent_archived'
             WHEN OLD.current_id IS NULL THEN 'agent_created' ELSE 'agent_revised' END,
        NEW.id,
        jsonb_build_object('name', NEW.name, 'revision', NEW.current_id, 'number', r.number, 'sha256', r.content_sha256,
                           'archived_at', NEW.archived_at, 'row_sha256', CASE WHEN r.id IS NOT NULL THEN memory_revision_digest(r) END));
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS agents_audit_agent ON agents_agent;
CREATE CONSTRAINT TRIGGER agents_audit_agent AFTER UPDATE ON agents_agent
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.name, OLD.current_id, OLD.archived_at)
          IS DISTINCT FROM (NEW.name, NEW.current_id, NEW.archived_at))
    EXECUTE FUNCTION agents_audit_agent();

-- A change of an agent is proposed, climbs, or comes down.
DROP TRIGGER IF EXISTS agents_audit_change ON agents_change;
CREATE CONSTRAINT TRIGGER agents_audit_change AFTER INSERT OR UPDATE OF rung ON agents_change DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION memory_audit_row(
        'change_', 'rung', 'id', 'agent_id', 'number', 'kinds', 'base_id', 'target_id', 'release_id', 'rung', 'decided_by');
