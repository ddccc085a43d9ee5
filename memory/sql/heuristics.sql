-- What the database guarantees about heuristics and their revisions. Needs review.sql.

-- A new database runs this file before the migrations that add some of the columns it names.
SET LOCAL check_function_bodies = off;

-- The hash covers every text that is served. A reviewer approves this hash and nothing else (reliability C2).
CREATE OR REPLACE FUNCTION memory_wording_sha256(r memory_heuristicrevision) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT encode(sha256(convert_to(CASE r.kind
        WHEN 'mistake' THEN jsonb_build_array(
            r.trigger, r.task_id, r.worker_id, r.avoid, r.guideline, r.rationale)
        ELSE jsonb_build_array(
            r.trigger, r.guideline, r.avoid, r.not_when, r.rationale, r.polarity, r.scope, r.task_id, to_jsonb(r.tags),
            r.source_task) || CASE
            -- How long it holds is part of what is approved; without an end the hash is what it always was.
            WHEN r.valid_until IS NULL AND r.expires_after IS NULL THEN '[]'::jsonb
            ELSE jsonb_build_array(extract(epoch FROM r.valid_until), extract(epoch FROM r.expires_after)) END
        END::text, 'UTF8')), 'hex')
$$;

-- A revision never changes after it is written, with one exception: that of a mistake may be reworded in place until
-- there is a decision on it.
CREATE OR REPLACE FUNCTION memory_revision_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted text := memory_wording_sha256(NEW);
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.id <> OLD.id OR NEW.heuristic_id <> OLD.heuristic_id OR NEW.number <> OLD.number
           OR NEW.project_id <> OLD.project_id OR NEW.kind <> OLD.kind
           OR (wanted <> OLD.content_sha256 OR NEW.content_sha256 <> OLD.content_sha256
               OR NEW.created_by <> OLD.created_by)
              AND (NEW.kind = 'lesson' OR OLD.approved_sha256 <> '' OR EXISTS (
                   SELECT FROM memory_review WHERE revision_id = OLD.id)) THEN
            RAISE EXCEPTION 'a heuristic revision is immutable: write a new revision'
                USING ERRCODE = 'restrict_violation';
        END IF;
        NEW.content_sha256 := wanted;
    ELSE
        NEW.content_sha256 := wanted;
        IF NEW.kind = 'lesson' THEN  -- searched
            NEW.search := setweight(to_tsvector('english', NEW.trigger), 'A')
                || setweight(to_tsvector('english', NEW.guideline), 'B')
                || setweight(to_tsvector('english', array_to_string(NEW.tags, ' ')), 'B')
                || setweight(to_tsvector('english', concat_ws(' ', NEW.avoid, NEW.not_when)), 'C')
                || setweight(to_tsvector('english', NEW.source_task), 'D');
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_revision_guard BEFORE INSERT OR UPDATE ON memory_heuristicrevision
    FOR EACH ROW EXECUTE FUNCTION memory_revision_guard();

-- An approval never changes after it is given; only the name of a reviewer who left is replaced, by an erasure.
CREATE OR REPLACE FUNCTION memory_approval_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.approved_sha256 <> '' AND (NEW.approved_sha256, NEW.approved_at)
       IS DISTINCT FROM (OLD.approved_sha256, OLD.approved_at)
       OR OLD.approved_sha256 <> '' AND NEW.approved_by <> OLD.approved_by
          AND current_setting('erl.erasing', true) IS DISTINCT FROM 'on' THEN
        RAISE EXCEPTION 'an approval is immutable' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_approval_guard BEFORE UPDATE ON memory_heuristicrevision
    FOR EACH ROW EXECUTE FUNCTION memory_approval_guard();

-- Leave of the admin's entries about erased rows who did what, without how the rows were called. The role of requests sees
-- no entries of the admin, and needs none for this.
CREATE OR REPLACE FUNCTION memory_forget_log_entries(ids text[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
BEGIN
    IF current_setting('erl.erasing', true) IS DISTINCT FROM 'on' THEN
        RAISE EXCEPTION 'entries of the admin are cleared by erasure alone' USING ERRCODE = 'restrict_violation';
    END IF;
    UPDATE django_admin_log SET object_repr = '(erased)', change_message = '' WHERE object_id = ANY (ids);
END $$;

CREATE OR REPLACE TRIGGER memory_revision_keep BEFORE DELETE ON memory_heuristicrevision
    FOR EACH ROW EXECUTE FUNCTION memory_append_only('but by erasure', 'with its reviews');

-- Whether a label stands for a person in this project: an active account, or a client with a key owned by one.
CREATE OR REPLACE FUNCTION memory_is_person(project uuid, label text) RETURNS boolean LANGUAGE sql STABLE
SECURITY DEFINER AS $$
    SELECT EXISTS (SELECT FROM auth_user u WHERE 'user:' || u.username = label AND u.is_active)
        OR EXISTS (SELECT FROM memory_apikey k JOIN auth_user u ON u.id = k.created_by_id
                   WHERE k.project_id = project AND 'key:' || k.client = label AND u.is_active)
$$;

-- Where a project asks for two reviewers, two different people approve the same text before it is served. A revision is
-- approved at the moment `approved_sha256` is filled; one that was approved before the project asked stays approved. A
-- policy is not a person. A person who renamed the account, or who owns the key of the other approval, is the same
-- person; a deleted account no longer counts. One person is enough for a mistake. Runs with the owner's rights: it locks a
-- project that others only read.
CREATE OR REPLACE FUNCTION memory_two_reviewers() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF NEW.approved_sha256 = '' OR (TG_OP = 'UPDATE' AND OLD.approved_sha256 <> '') THEN
        RETURN NEW;
    END IF;
    -- FOR SHARE waits for a change of the rule that is under way.
    PERFORM FROM memory_project WHERE id = NEW.project_id AND four_eyes FOR SHARE;
    IF NOT FOUND THEN
        RETURN NEW;
    END IF;
    IF NOT memory_is_person(NEW.project_id, NEW.approved_by) AND NEW.kind = 'mistake' THEN
        RAISE EXCEPTION 'a person has to approve a mistake card in this project' USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.kind = 'lesson' AND (NOT memory_is_person(NEW.project_id, NEW.approved_by) OR NOT EXISTS (
        SELECT FROM memory_review v
        LEFT JOIN memory_apikey k ON k.id = v.reviewer_key_id
        WHERE v.revision_id = NEW.id AND v.decision = 'first_approval' AND v.content_sha256 = NEW.approved_sha256
            AND v.reviewer <> NEW.approved_by AND coalesce(v.reviewer_user_id, k.created_by_id) IS NOT NULL
            AND NOT EXISTS (
                SELECT FROM auth_user u
                WHERE 'user:' || u.username = NEW.approved_by AND u.id IN (v.reviewer_user_id, k.created_by_id))
            AND NOT EXISTS (
                SELECT FROM memory_apikey a
                WHERE a.project_id = NEW.project_id AND 'key:' || a.client = NEW.approved_by
                    AND a.created_by_id IN (v.reviewer_user_id, k.created_by_id))
    )) THEN
        RAISE EXCEPTION 'two different people have to approve the same text in this project'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_two_reviewers BEFORE INSERT OR UPDATE ON memory_heuristicrevision
    FOR EACH ROW EXECUTE FUNCTION memory_two_reviewers();

-- A row changes its status only as listed with its trigger (reliability C11). Erasure removes revisions and may put the
-- status back.
CREATE OR REPLACE FUNCTION memory_move_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.status || ' ' || NEW.status) = ANY (TG_ARGV[0]::text[])
       OR current_setting('erl.erasing', true) IS NOT DISTINCT FROM 'on' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% does not move from % to %', TG_TABLE_NAME, OLD.status, NEW.status
        USING ERRCODE = 'restrict_violation';
END $$;
-- From retired, quarantined or superseded to approved: that was undone. From rejected, retired or superseded to
-- quarantined: a release still gave it.
CREATE OR REPLACE TRIGGER memory_heuristic_move BEFORE UPDATE OF status ON memory_heuristic
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION memory_move_guard('{
        proposed approved, proposed rejected, proposed retired, proposed quarantined, proposed superseded,
        approved proposed, approved retired, approved quarantined, approved superseded,
        rejected proposed, rejected quarantined, retired proposed, retired approved, retired quarantined,
        quarantined proposed, quarantined approved, superseded proposed, superseded approved,
        superseded quarantined}');

-- At commit an approved heuristic serves a revision, and a rejected, retired, quarantined or superseded one serves none
-- (reliability C11). A revision is served only with an approval of exactly its hash, so a heuristic cannot become
-- approved without a review.
CREATE OR REPLACE FUNCTION memory_status_agrees() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    of_heuristic uuid;
    current_status text;
    serves boolean;
    lives boolean;
BEGIN
    IF TG_TABLE_NAME = 'memory_heuristic' THEN
        of_heuristic := NEW.id;
    ELSE
        of_heuristic := NEW.heuristic_id;
    END IF;
    SELECT h.status, EXISTS (SELECT FROM memory_heuristicrevision v WHERE v.heuristic_id = h.id AND v.served),
        EXISTS (SELECT FROM memory_heuristicrevision v WHERE v.heuristic_id = h.id AND v.live)
    INTO current_status, serves, lives FROM memory_heuristic h WHERE h.id = of_heuristic;
    IF (current_status = 'approved' AND NOT serves) OR (current_status NOT IN ('approved', 'proposed') AND serves) THEN
        RAISE EXCEPTION 'the heuristic % is % but % a revision', of_heuristic, current_status,
            CASE WHEN serves THEN 'serves' ELSE 'does not serve' END USING ERRCODE = 'restrict_violation';
    END IF;
    IF current_status = 'quarantined' AND lives THEN
        RAISE EXCEPTION 'the heuristic % is quarantined but a release gives a revision of it', of_heuristic
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS memory_status_agrees ON memory_heuristic;
CREATE CONSTRAINT TRIGGER memory_status_agrees AFTER INSERT OR UPDATE OF status ON memory_heuristic
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memory_status_agrees();
DROP TRIGGER IF EXISTS memory_service_agrees ON memory_heuristicrevision;
CREATE CONSTRAINT TRIGGER memory_service_agrees AFTER INSERT OR UPDATE OF served ON memory_heuristicrevision
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memory_status_agrees();

-- At commit every proposal that another one stands for in the queue has one that stands in the queue itself: it waits
-- for a decision, in the same project, and no third stands for it. So no proposal is hidden from reviewers.
CREATE OR REPLACE FUNCTION memory_group_agrees() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM memory_heuristic m JOIN memory_heuristic l ON l.id = m.leader_id
        WHERE (m.id = NEW.id OR m.leader_id = NEW.id)
            AND (l.status <> 'proposed' OR l.leader_id IS NOT NULL OR l.id = m.id OR l.project_id <> m.project_id)
    ) THEN
        RAISE EXCEPTION 'the heuristic % would be hidden from the queue', NEW.id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS memory_group_agrees ON memory_heuristic;
CREATE CONSTRAINT TRIGGER memory_group_agrees AFTER INSERT OR UPDATE OF status, leader_id ON memory_heuristic
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memory_group_agrees();
