-- What the database guarantees about tools. The functions called here are in memory/sql/projects.sql and
-- memory/sql/heuristics.sql.

-- A revision stays as it was written: only its status changes, once it is decided on.
CREATE OR REPLACE FUNCTION agents_keep_toolrevision() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    may_change text[] := ARRAY['status', 'decided_by', 'decided_at'];
BEGIN
    IF to_jsonb(OLD) - may_change <> to_jsonb(NEW) - may_change THEN
        RAISE EXCEPTION 'a revision of a tool is immutable: write a new revision' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER agents_toolrevision_keep BEFORE UPDATE ON agents_toolrevision
    FOR EACH ROW EXECUTE FUNCTION agents_keep_toolrevision();
CREATE OR REPLACE TRIGGER agents_toolrevision_delete BEFORE DELETE ON agents_toolrevision
    FOR EACH ROW EXECUTE FUNCTION memory_only_by_erasure();

-- What is in force is an approved revision of the same tool.
CREATE OR REPLACE FUNCTION agents_tool_serves_approved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.current_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM agents_toolrevision r WHERE r.id = NEW.current_id AND r.tool_id = NEW.id AND r.status = 'approved'
    ) THEN
        RAISE EXCEPTION 'only an approved revision of the tool can be in force' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER agents_tool_serves_approved BEFORE INSERT OR UPDATE OF current_id ON agents_tool
    FOR EACH ROW EXECUTE FUNCTION agents_tool_serves_approved();

SELECT memory_belongs_to_project('agents_tool');
SELECT memory_belongs_to_project('agents_toolrevision');
SELECT memory_check_references('agents_tool', ARRAY[['current_id', 'agents_toolrevision', '']]);
SELECT memory_check_references('agents_toolrevision', ARRAY[['tool_id', 'agents_tool', '']]);
SELECT memory_grant_tenant();
