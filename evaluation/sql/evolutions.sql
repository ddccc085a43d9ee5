-- What an evolution found stays as it is: rows are written once, and leave with their project alone.
-- The functions called here are in memory/sql/projects.sql, memory/sql/heuristics.sql and memory/sql/audit.sql.

CREATE OR REPLACE TRIGGER evaluation_evolution_keep BEFORE UPDATE ON evaluation_evolution
    FOR EACH ROW EXECUTE FUNCTION memory_append_only();
CREATE OR REPLACE TRIGGER evaluation_evolutioncandidate_keep BEFORE UPDATE ON evaluation_evolutioncandidate
    FOR EACH ROW EXECUTE FUNCTION memory_append_only();

CREATE OR REPLACE TRIGGER evaluation_evolution_delete BEFORE DELETE ON evaluation_evolution
    FOR EACH ROW EXECUTE FUNCTION memory_only_by_erasure();
CREATE OR REPLACE TRIGGER evaluation_evolutioncandidate_delete BEFORE DELETE ON evaluation_evolutioncandidate
    FOR EACH ROW EXECUTE FUNCTION memory_only_by_erasure();

SELECT memory_belongs_to_project('evaluation_evolution');
SELECT memory_belongs_to_project('evaluation_evolutioncandidate');
SELECT memory_check_references('evaluation_evolution', ARRAY[['agent_id', 'agents_agent', '']]);
SELECT memory_check_references('evaluation_evolutioncandidate', ARRAY[
    ['evolution_id', 'evaluation_evolution', ''],
    ['change_id', 'agents_change', '']
]);
SELECT memory_grant_tenant();
