-- What keeps projects apart: rows never move to another project, references stay inside one, and row-level security
-- limits a role to one. Needs roles.sql. The functions write the triggers and policies of a table; the calls at the end
-- say which tables have them.

CREATE OR REPLACE FUNCTION memory_keep_project() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a row of % cannot move to another project', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;

-- Show a table's rows only where `rule` holds, unless the transaction sees every project (reliability D12). The owner
-- of the table is not limited.
CREATE OR REPLACE FUNCTION memory_limit_rows(of_table regclass, rule text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', of_table);
    EXECUTE format('DROP POLICY IF EXISTS erl_project ON %s', of_table);
    EXECUTE format(
        'CREATE POLICY erl_project ON %s USING ((SELECT memory_sees_every_project()) OR %s)', of_table, rule);
END $$;

-- Keep the rows of a table with a column project_id in their projects (reliability C1), and limit a role to those of
-- its own (D12).
CREATE OR REPLACE FUNCTION memory_belongs_to_project(of_table regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM memory_limit_rows(of_table, 'project_id = (SELECT memory_current_project())');
    EXECUTE format(
        'CREATE OR REPLACE TRIGGER %1$s_keep_project BEFORE UPDATE OF project_id ON %1$s FOR EACH ROW'
        ' WHEN (OLD.project_id IS DISTINCT FROM NEW.project_id) EXECUTE FUNCTION memory_keep_project()', of_table);
END $$;

-- Do not let an answer be deleted while a row of the table that the trigger names refers to it. An answer that moves to
-- another partition is deleted there, and still exists.
CREATE OR REPLACE FUNCTION memory_keep_answer() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
DECLARE
    is_needed boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE retrieval_id = $1)'
                   ' AND NOT EXISTS (SELECT FROM memory_retrieval WHERE id = $1)', TG_ARGV[0]) INTO is_needed USING OLD.id;
    IF is_needed THEN
        RAISE EXCEPTION 'an answer that % refers to cannot be deleted', TG_ARGV[0] USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN NULL;
END $$;

-- Let the rows of a table refer only to rows of their own project (reliability C1, D12). Each reference is a column,
-- the table it refers to, and what else has to hold of the row `p` there. The trigger runs with the owner's rights, so
-- that it sees the rows of other projects too. It leaves a row that does not exist to the foreign key, but for answers:
-- their table is partitioned and has no key of the id alone, so the triggers do what a foreign key would.
CREATE OR REPLACE FUNCTION memory_check_references(of_table regclass, reference_rows text[])
RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    reference text[];
    checks text := '';
    columns text[] := '{}';
    changed text[] := '{}';
BEGIN
    FOREACH reference SLICE 1 IN ARRAY reference_rows LOOP
        columns := columns || reference[1];
        changed := changed || format('OLD.%1$s IS DISTINCT FROM NEW.%1$s', reference[1]);
        IF reference[2] = 'memory_retrieval' THEN
            checks := checks || format($check$
    IF NEW.%1$s IS NOT NULL THEN
        SELECT p.project_id INTO of_project FROM memory_retrieval p WHERE p.id = NEW.%1$s FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION '%2$s.%1$s refers to an answer that does not exist' USING ERRCODE = 'foreign_key_violation';
        ELSIF of_project <> NEW.project_id THEN
            RAISE EXCEPTION '%2$s.%1$s refers to a row that belongs elsewhere' USING ERRCODE = 'restrict_violation';
        END IF;
    END IF;$check$, reference[1], of_table);
            EXECUTE format($trigger$
DROP TRIGGER IF EXISTS %1$s_needs_answer ON memory_retrieval;
CREATE CONSTRAINT TRIGGER %1$s_needs_answer AFTER DELETE ON memory_retrieval DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION memory_keep_answer('%1$s')$trigger$, of_table);
            CONTINUE;
        END IF;
        checks := checks || format($check$
    IF NEW.%1$s IS NOT NULL AND EXISTS (SELECT FROM %2$s p WHERE p.id = NEW.%1$s
        AND NOT (p.project_id = NEW.project_id%3$s)) THEN
        RAISE EXCEPTION '%4$s.%1$s refers to a row that belongs elsewhere' USING ERRCODE = 'restrict_violation';
    END IF;$check$, reference[1], reference[2], ' AND ' || nullif(reference[3], ''), of_table);
    END LOOP;
    EXECUTE format($function$
CREATE OR REPLACE FUNCTION %1$s_references() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
DECLARE
    of_project uuid;
BEGIN%2$s
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER %1$s_references_insert BEFORE INSERT ON %1$s FOR EACH ROW EXECUTE FUNCTION %1$s_references();
CREATE OR REPLACE TRIGGER %1$s_references_update BEFORE UPDATE OF %3$s ON %1$s
    FOR EACH ROW WHEN (%4$s) EXECUTE FUNCTION %1$s_references();
$function$, of_table, checks, array_to_string(columns, ', '), array_to_string(changed, ' OR '));
END $body$;

SELECT memory_belongs_to_project('memory_apikey');
SELECT memory_belongs_to_project('memory_auditentry');
SELECT memory_belongs_to_project('memory_block');
SELECT memory_belongs_to_project('memory_blockrevision');
SELECT memory_belongs_to_project('memory_comment');
SELECT memory_belongs_to_project('memory_deployment');
SELECT memory_belongs_to_project('memory_deploymentevent');
SELECT memory_belongs_to_project('memory_erasure');
SELECT memory_belongs_to_project('memory_evidence');
SELECT memory_belongs_to_project('memory_heuristic');
SELECT memory_belongs_to_project('memory_heuristicembedding');
SELECT memory_belongs_to_project('memory_heuristicfeedback');
SELECT memory_belongs_to_project('memory_heuristicrevision');
SELECT memory_belongs_to_project('memory_idempotencyrecord');
SELECT memory_belongs_to_project('memory_itemstate');
SELECT memory_belongs_to_project('memory_memoryimport');
SELECT memory_belongs_to_project('memory_passage');
SELECT memory_belongs_to_project('memory_passageembedding');
SELECT memory_belongs_to_project('memory_polarityquota');
SELECT memory_belongs_to_project('memory_quarantinelift');
SELECT memory_belongs_to_project('memory_quarantineorder');
SELECT memory_belongs_to_project('memory_release');
SELECT memory_belongs_to_project('memory_releasemember');
SELECT memory_belongs_to_project('memory_retrieval');
SELECT memory_belongs_to_project('memory_review');
SELECT memory_belongs_to_project('memory_searchstatistics');
SELECT memory_belongs_to_project('memory_servedchange');
SELECT memory_belongs_to_project('memory_taskvector');
SELECT memory_belongs_to_project('memory_termchange');
SELECT memory_belongs_to_project('memory_termcount');
SELECT memory_belongs_to_project('memory_trajectory');
SELECT memory_belongs_to_project('memory_usageverdict');
SELECT memory_belongs_to_project('memory_wordorigin');

-- These have no project_id of their own, or one that may be empty.
SELECT memory_limit_rows('memory_project', 'id = (SELECT memory_current_project())');
SELECT memory_limit_rows(
    'memory_projectmembership', 'project_id = (SELECT memory_current_project()) OR project_id IS NULL');
SELECT memory_limit_rows('memory_reviewclaim', 'EXISTS (SELECT FROM memory_heuristic h WHERE h.id = heuristic_id)');

SELECT memory_limit_rows(
    'memory_rulechange', 'project_id = (SELECT memory_current_project()) OR project_id IS NULL');

-- Where two reviewers are required, who decides is changed by two people as well: the change has a confirmed row in
-- memory_rulechange, requested and confirmed by two active accounts, which is used up by it. `wanted` are values that the row has
-- to have, among others.
CREATE OR REPLACE FUNCTION memory_use_rule_change(of_project uuid, what text, wanted jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE memory_rulechange SET applied_at = clock_timestamp() WHERE id = (
        SELECT c.id FROM memory_rulechange c
        JOIN auth_user one ON one.id = c.requested_user_id AND one.is_active
        JOIN auth_user other ON other.id = c.decided_user_id AND other.is_active AND other.id <> one.id
        WHERE c.project_id IS NOT DISTINCT FROM of_project AND c.kind = what AND c.status = 'confirmed'
            AND c.applied_at IS NULL AND c.values @> wanted
        LIMIT 1 FOR UPDATE OF c);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'two people have to agree to change who decides in this project'
            USING ERRCODE = 'restrict_violation';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION memory_two_change_settings() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM memory_use_rule_change(NEW.id, 'settings', (
        SELECT jsonb_object_agg(key, value) FROM jsonb_each(jsonb_build_object(
            'four_eyes', NEW.four_eyes, 'mistake_card_policy', NEW.mistake_card_policy))
        WHERE value IS DISTINCT FROM to_jsonb(OLD) -> key));
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_two_change_settings BEFORE UPDATE ON memory_project FOR EACH ROW
    WHEN (OLD.four_eyes AND (OLD.four_eyes, OLD.mistake_card_policy)
          IS DISTINCT FROM (NEW.four_eyes, NEW.mistake_card_policy))
    EXECUTE FUNCTION memory_two_change_settings();

-- A membership without a project is one in every project.
CREATE OR REPLACE FUNCTION memory_two_add_reviewer() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.role = 'reviewer' AND OLD.user_id = NEW.user_id
       AND OLD.project_id IS NOT DISTINCT FROM NEW.project_id THEN
        RETURN NEW;
    END IF;
    IF EXISTS (SELECT FROM memory_project p WHERE p.four_eyes AND (NEW.project_id IS NULL OR p.id = NEW.project_id)) THEN
        PERFORM memory_use_rule_change(NEW.project_id, 'reviewer', jsonb_build_object('user', NEW.user_id));
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_two_add_reviewer BEFORE INSERT OR UPDATE ON memory_projectmembership
    FOR EACH ROW WHEN (NEW.role = 'reviewer') EXECUTE FUNCTION memory_two_add_reviewer();

-- A key that replaces one of the same client and owner, which may review already, changes nothing.
CREATE OR REPLACE FUNCTION memory_two_let_key_review() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF EXISTS (SELECT FROM memory_project p WHERE p.id = NEW.project_id AND p.four_eyes) AND NOT EXISTS (
        SELECT FROM memory_apikey k
        WHERE k.project_id = NEW.project_id AND k.client = NEW.client AND 'review' = ANY (k.scopes)
            AND k.created_by_id IS NOT DISTINCT FROM NEW.created_by_id AND k.revoked_at IS NULL
            AND (k.expires_at IS NULL OR k.expires_at > now())) THEN
        PERFORM memory_use_rule_change(NEW.project_id, 'api_key', jsonb_build_object('api_key', NEW.id));
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_two_let_key_review BEFORE INSERT ON memory_apikey
    FOR EACH ROW WHEN ('review' = ANY (NEW.scopes)) EXECUTE FUNCTION memory_two_let_key_review();
CREATE OR REPLACE TRIGGER memory_two_widen_key BEFORE UPDATE ON memory_apikey
    FOR EACH ROW WHEN ('review' = ANY (NEW.scopes) AND (
        NOT 'review' = ANY (OLD.scopes) OR NEW.revoked_at IS NULL AND OLD.revoked_at IS NOT NULL
        OR NEW.created_by_id IS NOT NULL AND NEW.created_by_id IS DISTINCT FROM OLD.created_by_id))
    EXECUTE FUNCTION memory_two_let_key_review();

-- A key decides as the person who owns it. When the account is deleted it decides no longer, but an agent that uses it
-- for other things goes on.
CREATE OR REPLACE FUNCTION memory_key_loses_owner() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    kept text[] := ARRAY (SELECT s FROM unnest(NEW.scopes) s WHERE s NOT IN ('review', 'release', 'approve'));
BEGIN
    IF kept = '{}' THEN
        NEW.revoked_at := coalesce(NEW.revoked_at, now());
    ELSE
        NEW.scopes := kept;
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_key_loses_owner BEFORE UPDATE OF created_by_id ON memory_apikey
    FOR EACH ROW WHEN (OLD.created_by_id IS NOT NULL AND NEW.created_by_id IS NULL)
    EXECUTE FUNCTION memory_key_loses_owner();

-- A request never changes; it is decided once and used once.
CREATE OR REPLACE FUNCTION memory_rulechange_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (to_jsonb(NEW) - '{status,decided_by,decided_user_id,decided_at,applied_at,requested_user_id}'::text[])
       IS DISTINCT FROM
       (to_jsonb(OLD) - '{status,decided_by,decided_user_id,decided_at,applied_at,requested_user_id}'::text[])
       OR (OLD.status <> 'requested' AND (NEW.status, NEW.decided_by, NEW.decided_at)
           IS DISTINCT FROM (OLD.status, OLD.decided_by, OLD.decided_at))
       OR (NEW.requested_user_id IS NOT NULL AND NEW.requested_user_id IS DISTINCT FROM OLD.requested_user_id)
       OR (OLD.applied_at IS NOT NULL AND NEW.applied_at IS DISTINCT FROM OLD.applied_at) THEN
        RAISE EXCEPTION 'a change of who decides is requested, decided and used once'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_rulechange_guard BEFORE UPDATE ON memory_rulechange
    FOR EACH ROW EXECUTE FUNCTION memory_rulechange_guard();

-- The API key of a retrieval is left to `verify_audit`: the busiest request writes retrievals.
SELECT memory_check_references('memory_trajectory', ARRAY[
    ['retrieval_id', 'memory_retrieval', ''],
    ['parent_id', 'memory_trajectory', ''],
    ['api_key_id', 'memory_apikey', '']
]);
SELECT memory_check_references('memory_heuristic', ARRAY[
    ['current_revision_id', 'memory_heuristicrevision', 'p.heuristic_id = NEW.id'],
    ['superseded_by_id', 'memory_heuristic', ''],
    ['leader_id', 'memory_heuristic', '']
]);
SELECT memory_check_references('memory_heuristicrevision', ARRAY[
    ['heuristic_id', 'memory_heuristic', 'p.kind = NEW.kind']
]);
SELECT memory_check_references('memory_evidence', ARRAY[
    ['heuristic_id', 'memory_heuristic', ''],
    ['trajectory_id', 'memory_trajectory', ''],
    ['merged_from_id', 'memory_heuristic', '']
]);
SELECT memory_check_references('memory_heuristicembedding', ARRAY[
    ['heuristic_id', 'memory_heuristic', ''],
    ['revision_id', 'memory_heuristicrevision', 'p.heuristic_id = NEW.heuristic_id'],
    ['trajectory_id', 'memory_trajectory', '']
]);
SELECT memory_check_references('memory_heuristicfeedback', ARRAY[
    ['heuristic_id', 'memory_heuristic', ''],
    ['trajectory_id', 'memory_trajectory', ''],
    ['retrieval_id', 'memory_retrieval', '']
]);
SELECT memory_check_references('memory_review', ARRAY[['reviewer_key_id', 'memory_apikey', '']]);
SELECT memory_check_references('memory_release', ARRAY[
    ['parent_id', 'memory_release', '']
]);
SELECT memory_check_references('memory_releasemember', ARRAY[
    ['release_id', 'memory_release', ''],
    ['revision_id', 'memory_heuristicrevision', '']
]);
SELECT memory_check_references('memory_deployment', ARRAY[
    ['stable_id', 'memory_release', ''],
    ['candidate_id', 'memory_release', ''],
    ['previous_id', 'memory_release', '']
]);
SELECT memory_check_references('memory_deploymentevent', ARRAY[
    ['deployment_id', 'memory_deployment', '']
]);
SELECT memory_check_references('memory_taskvector', ARRAY[
    ['trajectory_id', 'memory_trajectory', '']
]);
SELECT memory_check_references('memory_usageverdict', ARRAY[
    ['heuristic_id', 'memory_heuristic', ''],
    ['trajectory_id', 'memory_trajectory', ''],
    ['retrieval_id', 'memory_retrieval', '']
]);
SELECT memory_check_references('memory_block', ARRAY[
    ['current_id', 'memory_blockrevision', 'p.block_id = NEW.id']
]);
SELECT memory_check_references('memory_blockrevision', ARRAY[
    ['block_id', 'memory_block', ''],
    ['base_id', 'memory_blockrevision', 'p.block_id = NEW.block_id'],
    ['replaced_id', 'memory_blockrevision', 'p.block_id = NEW.block_id'],
    ['restores_id', 'memory_blockrevision', 'p.block_id = NEW.block_id']
]);
SELECT memory_check_references('memory_passageembedding', ARRAY[
    ['passage_id', 'memory_passage', '']
]);
