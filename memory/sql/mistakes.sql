-- What the database guarantees about mistake cards, their revisions and reviews. Needs heuristics.sql.

-- As for heuristics, with one difference: a revision without any decision may be updated in place.
CREATE OR REPLACE FUNCTION memory_cardrevision_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted text := encode(sha256(convert_to(jsonb_build_array(
        NEW.mistake_type, NEW.task_id, NEW.worker_id, NEW.bad_decision, NEW.correct_decision, NEW.lesson
        )::text, 'UTF8')), 'hex');
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.id <> OLD.id OR NEW.card_id <> OLD.card_id OR NEW.number <> OLD.number
           OR NEW.project_id <> OLD.project_id THEN
            RAISE EXCEPTION 'a revision cannot move to another mistake card' USING ERRCODE = 'restrict_violation';
        END IF;
        IF wanted <> OLD.content_sha256 AND (OLD.approved_sha256 <> '' OR EXISTS (
               SELECT FROM memory_mistakecardreview WHERE revision_id = OLD.id)) THEN
            RAISE EXCEPTION 'a revision with a decision is immutable: write a new revision'
                USING ERRCODE = 'restrict_violation';
        END IF;
    END IF;
    NEW.content_sha256 := wanted;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_cardrevision_guard BEFORE INSERT OR UPDATE ON memory_mistakecardrevision
    FOR EACH ROW EXECUTE FUNCTION memory_cardrevision_guard();
CREATE OR REPLACE TRIGGER memory_cardapproval_guard BEFORE UPDATE ON memory_mistakecardrevision
    FOR EACH ROW EXECUTE FUNCTION memory_approval_guard();
CREATE OR REPLACE TRIGGER memory_cardrevision_keep BEFORE DELETE ON memory_mistakecardrevision
    FOR EACH ROW EXECUTE FUNCTION memory_only_by_erasure();

-- A review names the hash that its revision has at that moment.
CREATE OR REPLACE FUNCTION memory_cardreview_bind() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.content_sha256 IS DISTINCT FROM (
        SELECT content_sha256 FROM memory_mistakecardrevision
        WHERE id = NEW.revision_id AND card_id = NEW.card_id FOR SHARE) THEN
        RAISE EXCEPTION 'a review has to name the hash of its revision' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_cardreview_bind BEFORE INSERT ON memory_mistakecardreview
    FOR EACH ROW EXECUTE FUNCTION memory_cardreview_bind();
CREATE OR REPLACE TRIGGER memory_cardreview_guard BEFORE UPDATE ON memory_mistakecardreview
    FOR EACH ROW EXECUTE FUNCTION memory_review_guard();
CREATE OR REPLACE TRIGGER memory_cardreview_keep BEFORE DELETE ON memory_mistakecardreview
    FOR EACH ROW EXECUTE FUNCTION memory_only_by_erasure();

-- Where a project asks for two reviewers, a person approves a card; a policy cannot. Runs with the owner's rights,
-- because it locks a project that others may only read.
CREATE OR REPLACE FUNCTION memory_person_for_card() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF NEW.approved_sha256 = '' OR (TG_OP = 'UPDATE' AND OLD.approved_sha256 <> '') THEN
        RETURN NEW;
    END IF;
    PERFORM FROM memory_project WHERE id = NEW.project_id AND four_eyes FOR SHARE;
    IF FOUND AND NOT memory_is_person(NEW.project_id, NEW.approved_by) THEN
        RAISE EXCEPTION 'a person has to approve a mistake card in this project' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_person_for_card BEFORE INSERT OR UPDATE ON memory_mistakecardrevision
    FOR EACH ROW EXECUTE FUNCTION memory_person_for_card();

-- The status changes of a card (reliability C11).
CREATE OR REPLACE TRIGGER memory_mistakecard_move BEFORE UPDATE OF status ON memory_mistakecard
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION memory_move_guard('{
        proposed approved, proposed rejected, proposed retired, approved proposed, approved retired,
        rejected proposed, retired proposed}');
