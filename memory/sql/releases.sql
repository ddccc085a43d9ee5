-- What the database guarantees about releases: they never change, and a release is never a way round a quarantine. Needs
-- heuristics.sql, audit.sql and quarantine.sql.

-- Whether the agents of a project are given releases. Otherwise every approval is live at once.
CREATE OR REPLACE FUNCTION memory_serves_releases(of_project uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM memory_deployment WHERE project_id = of_project AND mode = 'releases')
$$;

-- `served` is the wording that is approved now, at most one of each lesson. `live` is what agents may be given: the same,
-- or, where a project serves releases, every approved wording of a release that is kept ready. A wording that was
-- quarantined (`withdrawn_at`) or that an order covers is not live, whatever a release says; another approval of it ends
-- that. Triggers run in the order of their names: this one before memory_revision_refuse_covered.
CREATE OR REPLACE FUNCTION memory_revision_live() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    was_live boolean := false;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        was_live := OLD.live;
        IF NEW.served AND NOT OLD.served THEN
            NEW.withdrawn_at := NULL;
        END IF;
    END IF;
    IF NEW.kind = 'mistake' THEN
        NEW.live := false;  -- agents are given the one that is served, in the record of earlier runs
        RETURN NEW;
    END IF;
    IF NOT memory_serves_releases(NEW.project_id) THEN
        NEW.live := NEW.served;
        RETURN NEW;
    END IF;
    NEW.live := NEW.withdrawn_at IS NULL AND NEW.approved_sha256 <> '' AND NEW.approved_sha256 = NEW.content_sha256
        AND EXISTS (SELECT FROM memory_releasemember m WHERE m.revision_id = NEW.id);
    IF NEW.live AND NOT was_live AND memory_covering_order(NEW.project_id, NEW.lineage) IS NOT NULL THEN
        NEW.live := false;  -- a roll-back leaves it out and is not refused
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_revision_live
    BEFORE INSERT OR UPDATE OF served, live, approved_sha256, withdrawn_at ON memory_heuristicrevision
    FOR EACH ROW EXECUTE FUNCTION memory_revision_live();

-- A quarantined lesson is given to no agent in any of its approved wordings, in every release at once. Undoing the
-- quarantine gives back what it took.
CREATE OR REPLACE FUNCTION memory_quarantine_wordings() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status = 'quarantined' THEN
        UPDATE memory_heuristicrevision SET withdrawn_at = now()
        WHERE heuristic_id = NEW.id AND approved_sha256 <> '' AND withdrawn_at IS NULL;
    ELSE
        UPDATE memory_heuristicrevision SET withdrawn_at = NULL
        WHERE heuristic_id = NEW.id AND withdrawn_at = (
            SELECT max(withdrawn_at) FROM memory_heuristicrevision WHERE heuristic_id = NEW.id);
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_quarantine_wordings AFTER UPDATE OF status ON memory_heuristic
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status
                       AND (NEW.status = 'quarantined' OR OLD.status = 'quarantined' AND NEW.status = 'approved'))
    EXECUTE FUNCTION memory_quarantine_wordings();

-- Releases and the history of deployments are only added to; erasing a project removes them.
CREATE OR REPLACE TRIGGER memory_release_keep BEFORE UPDATE OR DELETE ON memory_release
    FOR EACH ROW EXECUTE FUNCTION memory_append_only('but by erasure');
CREATE OR REPLACE TRIGGER memory_deploymentevent_keep BEFORE UPDATE OR DELETE ON memory_deploymentevent
    FOR EACH ROW EXECUTE FUNCTION memory_append_only('but by erasure');

DROP TRIGGER IF EXISTS memory_audit_release ON memory_release;
CREATE CONSTRAINT TRIGGER memory_audit_release AFTER INSERT ON memory_release DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION memory_audit_row(
        'release_cut', '', 'id', 'number', 'sha256', 'parent_id', 'how', 'created_by');
DROP TRIGGER IF EXISTS memory_audit_deployment ON memory_deploymentevent;
CREATE CONSTRAINT TRIGGER memory_audit_deployment AFTER INSERT ON memory_deploymentevent DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION memory_audit_row('deployment_', 'kind', 'deployment_id', 'version', 'state', 'made_by');
