-- Plans and looks stay as they are: what an experiment measures is fixed when it starts, and what was seen is kept.
-- The functions called here are in memory/sql/projects.sql, memory/sql/heuristics.sql and memory/sql/audit.sql.

CREATE OR REPLACE FUNCTION evaluation_keep_plan() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    may_change text[] := ARRAY['status', 'conclusion', 'reason', 'ended_by', 'ended_at'];
BEGIN
    IF OLD.status = 'ended' THEN
        RAISE EXCEPTION 'an experiment that has ended stays as it is' USING ERRCODE = 'restrict_violation';
    END IF;
    IF to_jsonb(OLD) - may_change <> to_jsonb(NEW) - may_change THEN
        RAISE EXCEPTION 'the plan of an experiment is fixed: start a new one' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER evaluation_experiment_keep BEFORE UPDATE ON evaluation_experiment
    FOR EACH ROW EXECUTE FUNCTION evaluation_keep_plan();

CREATE OR REPLACE TRIGGER evaluation_experiment_delete BEFORE DELETE ON evaluation_experiment
    FOR EACH ROW EXECUTE FUNCTION memory_append_only('but by erasure');
CREATE OR REPLACE TRIGGER evaluation_look_keep BEFORE UPDATE OR DELETE ON evaluation_look
    FOR EACH ROW EXECUTE FUNCTION memory_append_only('but by erasure');

SELECT memory_belongs_to_project('evaluation_experiment');
SELECT memory_belongs_to_project('evaluation_look');
SELECT memory_grant_tenant();
