-- What keeps the reflections of projects apart. The functions are in memory/sql/projects.sql (reliability C1, D12).

SELECT memory_belongs_to_project('reflection_consolidationrun');
SELECT memory_belongs_to_project('reflection_dailyspend');
SELECT memory_belongs_to_project('reflection_modelcall');
SELECT memory_belongs_to_project('reflection_proposal');
SELECT memory_belongs_to_project('reflection_reflection');
SELECT memory_belongs_to_project('reflection_suggestion');
SELECT memory_belongs_to_project('reflection_suggestionevidence');

SELECT memory_check_references('reflection_suggestion', ARRAY[
    ['run_id', 'reflection_consolidationrun', ''],
    ['heuristic_id', 'memory_heuristic', ''],
    ['other_id', 'memory_heuristic', '']
]);
SELECT memory_check_references('reflection_suggestionevidence', ARRAY[
    ['suggestion_id', 'reflection_suggestion', ''],
    ['trajectory_id', 'memory_trajectory', '']
]);
SELECT memory_check_references('reflection_reflection', ARRAY[
    ['trajectory_id', 'memory_trajectory', '']
]);
SELECT memory_check_references('reflection_proposal', ARRAY[
    ['reflection_id', 'reflection_reflection', ''],
    ['heuristic_id', 'memory_heuristic', ''],
    ['near_id', 'memory_heuristic', '']
]);
SELECT memory_check_references('reflection_modelcall', ARRAY[
    ['reflection_id', 'reflection_reflection', ''],
    ['consolidation_id', 'reflection_consolidationrun', '']
]);

-- Whether a provider answers is no secret, and a request that ranks with a model notes it.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_tenant') THEN
        GRANT SELECT, INSERT, UPDATE ON reflection_providerstate TO erl_tenant;
    END IF;
END $$;
SELECT memory_grant_tenant();
