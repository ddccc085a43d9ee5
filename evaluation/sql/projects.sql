-- What keeps the evaluations of projects apart. The functions are in memory/sql/projects.sql (reliability D12).
SELECT memory_belongs_to_project('evaluation_evaluationrun');
SELECT memory_grant_tenant();
