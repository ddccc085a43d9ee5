-- What a change is made of never changes. Needs runs.sql and memory/sql/heuristics.sql.
CREATE OR REPLACE TRIGGER agents_change_keep
    BEFORE UPDATE OF base_id, target_id, agent_id, lessons, retrieval, evidence, reason, source
    ON agents_change FOR EACH ROW EXECUTE FUNCTION memory_append_only();

-- The wordings that a change brings are of its project.
CREATE OR REPLACE FUNCTION agents_change_lessons() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(NEW.lessons) AS brought (id) WHERE NOT EXISTS (
            SELECT FROM memory_heuristicrevision r WHERE r.id = brought.id AND r.project_id = NEW.project_id)) THEN
        RAISE EXCEPTION 'a lesson of the change is not one of its project' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER agents_change_lessons BEFORE INSERT ON agents_change
    FOR EACH ROW WHEN (NEW.lessons <> '{}') EXECUTE FUNCTION agents_change_lessons();
