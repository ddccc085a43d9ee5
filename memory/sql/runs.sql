-- What agents were told before their runs is kept once a project, and goes with the last run that was told it.

-- Two statements: the second one sees what was committed while the first one waited for a run that is being recorded
-- with the same text.
CREATE OR REPLACE FUNCTION memory_forget_system_prompt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM memory_systemprompt WHERE id = OLD.system_prompt_id FOR UPDATE;
    DELETE FROM memory_systemprompt p WHERE p.id = OLD.system_prompt_id
        AND NOT EXISTS (SELECT FROM memory_trajectory t WHERE t.system_prompt_id = p.id);
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_forget_system_prompt AFTER DELETE OR UPDATE OF system_prompt_id ON memory_trajectory
    FOR EACH ROW WHEN (OLD.system_prompt_id IS NOT NULL) EXECUTE FUNCTION memory_forget_system_prompt();

SELECT memory_belongs_to_project('memory_systemprompt');
SELECT memory_refers_within('memory_trajectory', '{system_prompt_id}', '{project_id}', '{project_id}');
SELECT memory_grant_tenant();
