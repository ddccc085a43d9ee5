-- What keeps projects apart: rows never move to another project, references stay inside one, and row-level security
-- limits a role to one. Needs roles.sql. The functions write the triggers and policies of a table; the calls at the end
-- say which tables have them.

CREATE OR REPLACE FUNCTION memory_keep_project() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a row of % cannot move to another project', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;

-- Show a table's rows only where `rule` holds, unless the transaction sees every project (reliability D12). The owner
-- of the table is not limited. A table that has the rule is left alone: to write it again would stop all requests until
-- the file has run. PostgreSQL shows rules with parentheses and names that were not written.
CREATE OR REPLACE FUNCTION memory_limit_rows(of_table regclass, rule text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    noise text := ' AS \w+|[\s()]';
    wanted text := regexp_replace('(SELECT memory_sees_every_project()) OR ' || rule, noise, '', 'g');
BEGIN
    IF EXISTS (
        SELECT FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
        WHERE p.polrelid = of_table AND p.polname = 'erl_project' AND c.relrowsecurity AND p.polcmd = '*'
            AND p.polpermissive AND p.polroles = '{0}' AND p.polwithcheck IS NULL
            AND regexp_replace(pg_get_expr(p.polqual, p.polrelid), noise, '', 'g') = wanted) THEN
        RETURN;
    END IF;
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', of_table);
    EXECUTE format('DROP POLICY IF EXISTS erl_project ON %s', of_table);
    EXECUTE format(
        'CREATE POLICY erl_project ON %s USING ((SELECT memory_sees_every_project()) OR %s)', of_table, rule);
END $$;

-- Let columns refer only to rows that agree with their own in other columns, which have the same names there or others:
-- each foreign key is one of all of them. Safe to repeat. A key that has a NULL is not checked, so where a project may be
-- empty the simple key stays, too.
CREATE OR REPLACE FUNCTION memory_refers_within(of_table regclass, referring name[], own name[], theirs name[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    simple record;
    own_names text := (SELECT string_agg(quote_ident(n), ', ') FROM unnest(own) n);
    all_theirs text := (SELECT string_agg(quote_ident(n), ', ') FROM unnest('id'::name || theirs) n);
    may_be_empty boolean := (SELECT bool_or(NOT attnotnull) FROM pg_attribute
                             WHERE attrelid = of_table AND attname = ANY (own));
BEGIN
    FOR simple IN
        SELECT c.conname, c.confrelid::regclass AS referred, a.attname,
            format('%s_%s_within', of_table, a.attname) AS within
        FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
        WHERE c.conrelid = of_table AND c.contype = 'f' AND a.attname = ANY (referring) AND cardinality(c.conkey) = 1
    LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_constraint WHERE conrelid = of_table AND conname = simple.within);
        IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = simple.referred AND contype = 'u'
                       AND pg_get_constraintdef(oid) = format('UNIQUE (%s)', all_theirs)) THEN
            EXECUTE format('ALTER TABLE %s ADD UNIQUE (%s)', simple.referred, all_theirs);
        END IF;
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I FOREIGN KEY (%I, %s) REFERENCES %s (%s)'
                       ' DEFERRABLE INITIALLY DEFERRED',
                       of_table, simple.within, simple.attname, own_names, simple.referred, all_theirs);
        IF NOT may_be_empty THEN
            EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', of_table, simple.conname);
        END IF;
    END LOOP;
END $$;

-- Keep the rows of a table with a column project_id in their projects (reliability C1), and limit a role to those of
-- its own (D12). Every foreign key to a table that has projects, too, is one of the project as well. A row that has to
-- refer to another one cannot leave its project without it; the others have a trigger.
CREATE OR REPLACE FUNCTION memory_belongs_to_project(of_table regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    referring name[];
BEGIN
    PERFORM memory_limit_rows(of_table, 'project_id = (SELECT memory_current_project())');
    SELECT array_agg(a.attname) INTO referring FROM pg_constraint c
    JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
    JOIN pg_attribute p ON p.attrelid = c.confrelid AND p.attname = 'project_id'
    WHERE c.conrelid = of_table AND c.contype = 'f';
    PERFORM memory_refers_within(of_table, referring, '{project_id}', '{project_id}');
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = of_table AND tgname = format('%s_keep_project', of_table))
       AND NOT EXISTS (
        SELECT FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
        WHERE c.conrelid = of_table AND c.contype = 'f' AND a.attnotnull AND c.conname = format('%s_%s_within', of_table, a.attname)) THEN
        EXECUTE format(
            'CREATE OR REPLACE TRIGGER %1$s_keep_project BEFORE UPDATE OF project_id ON %1$s FOR EACH ROW'
            ' WHEN (OLD.project_id IS DISTINCT FROM NEW.project_id) EXECUTE FUNCTION memory_keep_project()', of_table);
    END IF;
END $$;

-- Answers are partitioned and have no key of the id alone, so triggers do what foreign keys would: for the column
-- retrieval_id of a table, and for answers that a row of it refers to. They run with the owner's rights, so that they see the
-- rows of other projects too.
CREATE OR REPLACE FUNCTION memory_find_answer() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
DECLARE
    of_project uuid;
BEGIN
    SELECT r.project_id INTO of_project FROM memory_retrieval r WHERE r.id = NEW.retrieval_id FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION '% refers to an answer that does not exist', TG_TABLE_NAME USING ERRCODE = 'foreign_key_violation';
    ELSIF of_project <> NEW.project_id THEN
        RAISE EXCEPTION '% refers to an answer that belongs elsewhere', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

-- An answer that moves to another partition is deleted there, and still exists.
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

CREATE OR REPLACE FUNCTION memory_refers_to_answers(of_table regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format($trigger$
CREATE OR REPLACE TRIGGER %1$s_finds_answer BEFORE INSERT OR UPDATE OF retrieval_id ON %1$s
    FOR EACH ROW WHEN (NEW.retrieval_id IS NOT NULL) EXECUTE FUNCTION memory_find_answer()$trigger$, of_table);
    -- PostgreSQL cannot replace it, and to drop it would stop all requests.
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'memory_retrieval'::regclass
                   AND tgname = format('%s_needs_answer', of_table)) THEN
        EXECUTE format($trigger$
CREATE CONSTRAINT TRIGGER %1$s_needs_answer AFTER DELETE ON memory_retrieval DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION memory_keep_answer('%1$s')$trigger$, of_table);
    END IF;
END $$;

-- What is in force is one of the row's own revisions; what a revision was made from, one of the same subject.
SELECT memory_refers_within('memory_heuristicrevision', '{heuristic_id}', '{project_id,kind}', '{project_id,kind}');
SELECT memory_refers_within('memory_heuristic', '{current_revision_id}', '{id}', '{heuristic_id}');
SELECT memory_refers_within('memory_heuristicembedding', '{revision_id}', '{heuristic_id}', '{heuristic_id}');
SELECT memory_refers_within('memory_block', '{current_id}', '{id}', '{block_id}');
SELECT memory_refers_within('memory_blockrevision', '{base_id,replaced_id,restores_id}', '{block_id}', '{block_id}');

SELECT memory_belongs_to_project('memory_apikey');
SELECT memory_belongs_to_project('memory_block');
SELECT memory_belongs_to_project('memory_blockrevision');
SELECT memory_belongs_to_project('memory_comment');
SELECT memory_belongs_to_project('memory_deployment');
SELECT memory_belongs_to_project('memory_deploymentevent');
SELECT memory_belongs_to_project('memory_evidence');
SELECT memory_belongs_to_project('memory_heuristic');
SELECT memory_belongs_to_project('memory_heuristicembedding');
SELECT memory_belongs_to_project('memory_heuristicrevision');
SELECT memory_belongs_to_project('memory_idempotencyrecord');
SELECT memory_belongs_to_project('memory_itemstate');
SELECT memory_belongs_to_project('memory_memoryimport');
SELECT memory_belongs_to_project('memory_passage');
SELECT memory_belongs_to_project('memory_passageembedding');
SELECT memory_belongs_to_project('memory_polarityquota');
SELECT memory_belongs_to_project('memory_quarantinelift');
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

-- These never change, and refer to nothing.
SELECT memory_limit_rows('memory_auditentry', 'project_id = (SELECT memory_current_project())');
SELECT memory_limit_rows('memory_erasure', 'project_id = (SELECT memory_current_project())');
SELECT memory_limit_rows('memory_quarantineorder', 'project_id = (SELECT memory_current_project())');
SELECT memory_limit_rows('memory_wordorigin', 'project_id = (SELECT memory_current_project())');

-- These have no project_id of their own, or one that may be empty.
SELECT memory_limit_rows('memory_project', 'id = (SELECT memory_current_project())');
SELECT memory_limit_rows(
    'memory_projectmembership', 'project_id = (SELECT memory_current_project()) OR project_id IS NULL');
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

SELECT memory_refers_to_answers('memory_trajectory');
SELECT memory_refers_to_answers('memory_usageverdict');
