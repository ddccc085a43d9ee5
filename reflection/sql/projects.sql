-- What keeps the jobs and reflections of projects apart. The functions are in memory/sql/projects.sql (reliability C1,
-- D12).

SELECT memory_belongs_to_project('reflection_dailyspend');
SELECT memory_belongs_to_project('reflection_job');
SELECT memory_belongs_to_project('reflection_modelcall');
SELECT memory_belongs_to_project('reflection_proposal');
SELECT memory_belongs_to_project('reflection_reservation');
SELECT memory_belongs_to_project('reflection_runpatterns');
SELECT memory_belongs_to_project('reflection_suggestion');
SELECT memory_belongs_to_project('reflection_suggestionevidence');



CREATE OR REPLACE TRIGGER reflection_suggestion_end_discussion AFTER DELETE ON reflection_suggestion
    FOR EACH ROW EXECUTE FUNCTION memory_end_discussion();

-- Whether a provider answers is no secret, and a request that ranks with a model notes it.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_tenant') THEN
        GRANT SELECT, INSERT, UPDATE ON reflection_providerstate TO erl_tenant;
    END IF;
END $$;
SELECT memory_grant_tenant();
