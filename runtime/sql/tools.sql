-- What the database guarantees about tools, and about what is in force of tools and agents. The functions called here are
-- in memory/sql/projects.sql and memory/sql/review.sql.

-- A revision stays as it was written: only its status changes, and it is approved by a review of exactly its content.
CREATE OR REPLACE FUNCTION agents_toolrevision_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND to_jsonb(OLD) - 'status' <> to_jsonb(NEW) - 'status' THEN
        RAISE EXCEPTION 'a revision of a tool is immutable: write a new revision' USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.status = 'approved' AND NOT memory_is_approved(NEW.id, NEW.content_sha256) THEN
        RAISE EXCEPTION 'a review has to approve exactly this content' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER agents_toolrevision_guard BEFORE INSERT OR UPDATE ON agents_toolrevision
    FOR EACH ROW EXECUTE FUNCTION agents_toolrevision_guard();
CREATE OR REPLACE TRIGGER agents_toolrevision_delete BEFORE DELETE ON agents_toolrevision
    FOR EACH ROW EXECUTE FUNCTION memory_append_only('but by erasure', 'with its reviews');

-- What is in force is a revision of the same tool or agent that a review approved.
CREATE OR REPLACE FUNCTION agents_serves_approved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_approved boolean;
BEGIN
    EXECUTE format(
        'SELECT EXISTS (SELECT FROM %I r WHERE r.id = $1 AND r.%I = $2 AND memory_is_approved(r.id, r.content_sha256)'
        ' AND coalesce(to_jsonb(r) ->> ''status'', ''approved'') = ''approved'')',
        TG_TABLE_NAME || 'revision', split_part(TG_TABLE_NAME, '_', 2) || '_id')
    INTO is_approved USING NEW.current_id, NEW.id;
    IF NEW.current_id IS NOT NULL AND NOT is_approved THEN
        RAISE EXCEPTION 'only an approved revision of % can be in force', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER agents_tool_serves_approved BEFORE INSERT OR UPDATE OF current_id ON agents_tool
    FOR EACH ROW EXECUTE FUNCTION agents_serves_approved();
CREATE OR REPLACE TRIGGER agents_agent_serves_approved BEFORE INSERT OR UPDATE OF current_id ON agents_agent
    FOR EACH ROW EXECUTE FUNCTION agents_serves_approved();

CREATE OR REPLACE TRIGGER agents_agentrevision_keep BEFORE UPDATE OR DELETE ON agents_agentrevision
    FOR EACH ROW EXECUTE FUNCTION memory_append_only('but by erasure', 'with its reviews');

SELECT memory_refers_within('agents_tool', '{current_id}', '{id}', '{tool_id}');
SELECT memory_belongs_to_project('agents_tool');
SELECT memory_belongs_to_project('agents_toolrevision');
SELECT memory_grant_tenant();
