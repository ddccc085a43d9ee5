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

SELECT memory_check_references('reflection_job', ARRAY[
    ['trajectory_id', 'memory_trajectory', ''],
    ['endpoint_id', 'reflection_webhookendpoint', '']
]);

SELECT memory_check_references('reflection_suggestion', ARRAY[
    ['run_id', 'reflection_job', ''],
    ['heuristic_id', 'memory_heuristic', ''],
    ['other_id', 'memory_heuristic', '']
]);
SELECT memory_check_references('reflection_suggestionevidence', ARRAY[
    ['suggestion_id', 'reflection_suggestion', ''],
    ['trajectory_id', 'memory_trajectory', '']
]);
SELECT memory_check_references('reflection_proposal', ARRAY[
    ['reflection_id', 'reflection_job', ''],
    ['heuristic_id', 'memory_heuristic', ''],
    ['near_id', 'memory_heuristic', '']
]);
SELECT memory_check_references('reflection_runpatterns', ARRAY[
    ['trajectory_id', 'memory_trajectory', '']
]);
SELECT memory_check_references('reflection_modelcall', ARRAY[
    ['job_id', 'reflection_job', '']
]);
SELECT memory_check_references('reflection_reservation', ARRAY[
    ['spend_id', 'reflection_dailyspend', ''],
    ['job_id', 'reflection_job', '']
]);

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
