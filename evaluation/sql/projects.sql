-- What keeps the evaluations and shadow answers of projects apart. The functions are in memory/sql/projects.sql (reliability D12).
SELECT memory_belongs_to_project('evaluation_evaluationrun');
SELECT memory_belongs_to_project('evaluation_shadowanswer');
SELECT memory_belongs_to_project('evaluation_shadowminute');
SELECT memory_check_references('evaluation_shadowanswer', ARRAY[
    ['retrieval_id', 'memory_retrieval', ''],
    ['stable_id', 'memory_release', ''],
    ['candidate_id', 'memory_release', '']
]);
SELECT memory_check_references('evaluation_shadowminute', ARRAY[
    ['stable_id', 'memory_release', ''],
    ['candidate_id', 'memory_release', '']
]);
SELECT memory_grant_tenant();
