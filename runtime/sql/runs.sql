-- What holds of agents, runs and effects, whatever program writes them. The functions called at the end are in
-- memory/sql/projects.sql, memory/sql/heuristics.sql and memory/sql/audit.sql.

-- A revision of an agent, a compaction, what was found out and the words of a message stay as they are.
CREATE OR REPLACE TRIGGER agents_compaction_keep BEFORE UPDATE ON agents_compaction
    FOR EACH ROW EXECUTE FUNCTION memory_append_only();
CREATE OR REPLACE TRIGGER agents_evaluationrow_keep BEFORE UPDATE ON agents_evaluationrow
    FOR EACH ROW EXECUTE FUNCTION memory_append_only();
-- What an evolution found leaves with its project alone.
CREATE OR REPLACE TRIGGER agents_evaluationrow_delete BEFORE DELETE ON agents_evaluationrow
    FOR EACH ROW WHEN (OLD.kind IN ('evolution', 'candidate')) EXECUTE FUNCTION memory_append_only('but by erasure');
CREATE OR REPLACE TRIGGER agents_message_keep BEFORE UPDATE OF seq, role, tool_calls, tool_call_id, conversation_id
    ON agents_message FOR EACH ROW EXECUTE FUNCTION memory_append_only();

-- A step begins when every call of the steps before it has ended.
CREATE OR REPLACE FUNCTION agents_step_after_effects() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM agents_effect e
               WHERE e.run_id = NEW.run_id AND e.status IN ('planned', 'waiting', 'started', 'unknown')) THEN
        RAISE EXCEPTION 'a call of the step before has not ended' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER agents_step_after_effects BEFORE INSERT ON agents_step
    FOR EACH ROW EXECUTE FUNCTION agents_step_after_effects();

-- What a call asks for never changes, and one that needs an approval is carried out only with one of these very
-- arguments. A pure call has no row that says it began: it ends at once.
CREATE OR REPLACE FUNCTION agents_effect_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.arguments, OLD.arguments_sha256, OLD.tool, OLD.kind, OLD.index)
       IS DISTINCT FROM (NEW.arguments, NEW.arguments_sha256, NEW.tool, NEW.kind, NEW.index)
       OR OLD.needs_approval AND NOT NEW.needs_approval THEN
        RAISE EXCEPTION 'what a call asks for stays as it is' USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.status IN ('succeeded', 'failed', 'refused', 'rejected', 'superseded', 'cancelled')
       AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'a call that has ended stays ended' USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.status IN ('started', 'succeeded', 'failed') AND NEW.status <> OLD.status AND NEW.needs_approval
       AND NOT EXISTS (
        SELECT FROM agents_approval a
        WHERE a.effect_id = NEW.id AND a.arguments_sha256 = NEW.arguments_sha256
            AND (a.status = 'approved' OR a.status = 'answered' AND NEW.status = 'succeeded')) THEN
        RAISE EXCEPTION 'this call needs an approval' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER agents_effect_guard BEFORE UPDATE ON agents_effect
    FOR EACH ROW EXECUTE FUNCTION agents_effect_guard();

-- At the end of a transaction a call that waits has a question to people.
CREATE OR REPLACE FUNCTION agents_effect_is_asked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM agents_effect e WHERE e.id = NEW.id AND e.status = 'waiting')
       AND NOT EXISTS (SELECT FROM agents_approval a WHERE a.effect_id = NEW.id AND a.status = 'pending') THEN
        RAISE EXCEPTION 'a call waits and nobody was asked' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS agents_effect_is_asked ON agents_effect;
CREATE CONSTRAINT TRIGGER agents_effect_is_asked AFTER INSERT OR UPDATE OF status ON agents_effect
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'waiting') EXECUTE FUNCTION agents_effect_is_asked();

-- What is of an agent or a run refers to others of the same.
SELECT memory_refers_within('agents_agent', '{current_id}', '{id}', '{agent_id}');
SELECT memory_refers_within('agents_change', '{base_id,target_id}', '{agent_id}', '{agent_id}');
SELECT memory_refers_within('agents_run', '{revision_id,conversation_id}', '{agent_id}', '{agent_id}');
SELECT memory_refers_within('agents_effect', '{step_id}', '{run_id}', '{run_id}');
SELECT memory_refers_within('agents_approval', '{effect_id}', '{run_id}', '{run_id}');
SELECT memory_belongs_to_project('agents_agent');
SELECT memory_belongs_to_project('agents_agentrevision');
SELECT memory_belongs_to_project('agents_change');
SELECT memory_belongs_to_project('agents_evaluationrow');
SELECT memory_belongs_to_project('agents_compaction');
SELECT memory_belongs_to_project('agents_run');
SELECT memory_belongs_to_project('agents_step');
SELECT memory_belongs_to_project('agents_effect');
SELECT memory_belongs_to_project('agents_approval');
SELECT memory_belongs_to_project('agents_event');
SELECT memory_refers_to_answers('agents_evaluationrow');
SELECT memory_refers_to_answers('agents_run');
CREATE OR REPLACE TRIGGER agents_approval_end_discussion AFTER DELETE ON agents_approval
    FOR EACH ROW EXECUTE FUNCTION memory_end_discussion();
CREATE OR REPLACE TRIGGER agents_toolrevision_end_discussion AFTER DELETE ON agents_toolrevision
    FOR EACH ROW EXECUTE FUNCTION memory_end_discussion();
CREATE OR REPLACE TRIGGER agents_change_end_discussion AFTER DELETE ON agents_change
    FOR EACH ROW EXECUTE FUNCTION memory_end_discussion();
SELECT memory_grant_tenant();
