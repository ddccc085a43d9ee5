"""What the database holds of mistake cards: hashes, decided words that stay, approvals, and what may be served."""

from typing import Any

from django.db import migrations

FORWARD = r"""
-- As for heuristics, with one difference: words that nobody decided on are brought up to date in place.
CREATE FUNCTION memory_cardrevision_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted text := encode(sha256(convert_to(jsonb_build_array(
        NEW.mistake_type, NEW.task_id, NEW.worker_id, NEW.bad_decision, NEW.correct_decision, NEW.lesson
        )::text, 'UTF8')), 'hex');
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.id <> OLD.id OR NEW.card_id <> OLD.card_id OR NEW.number <> OLD.number
           OR NEW.project_id <> OLD.project_id THEN
            RAISE EXCEPTION 'a wording stays with its mistake card' USING ERRCODE = 'restrict_violation';
        END IF;
        IF wanted <> OLD.content_sha256 AND (OLD.approved_sha256 <> '' OR EXISTS (
               SELECT FROM memory_mistakecardreview WHERE revision_id = OLD.id)) THEN
            RAISE EXCEPTION 'words that were decided on are immutable: write a new revision'
                USING ERRCODE = 'restrict_violation';
        END IF;
        IF OLD.approved_sha256 <> '' AND (NEW.approved_sha256, NEW.approved_by, NEW.approved_at)
           IS DISTINCT FROM (OLD.approved_sha256, OLD.approved_by, OLD.approved_at) THEN
            RAISE EXCEPTION 'an approval is immutable' USING ERRCODE = 'restrict_violation';
        END IF;
    END IF;
    NEW.content_sha256 := wanted;
    RETURN NEW;
END $$;
CREATE TRIGGER memory_cardrevision_guard BEFORE INSERT OR UPDATE ON memory_mistakecardrevision
    FOR EACH ROW EXECUTE FUNCTION memory_cardrevision_guard();

-- A decision is on the words as they stand when it is taken.
CREATE FUNCTION memory_cardreview_bind() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.content_sha256 IS DISTINCT FROM (
        SELECT content_sha256 FROM memory_mistakecardrevision
        WHERE id = NEW.revision_id AND card_id = NEW.card_id FOR SHARE) THEN
        RAISE EXCEPTION 'a decision is on the exact words of its card' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER memory_cardreview_bind BEFORE INSERT ON memory_mistakecardreview
    FOR EACH ROW EXECUTE FUNCTION memory_cardreview_bind();
CREATE TRIGGER memory_cardreview_guard BEFORE UPDATE ON memory_mistakecardreview
    FOR EACH ROW EXECUTE FUNCTION memory_review_guard();
CREATE TRIGGER memory_cardrevision_keep BEFORE DELETE ON memory_mistakecardrevision
    FOR EACH ROW EXECUTE FUNCTION memory_only_by_erasure();
CREATE TRIGGER memory_cardreview_keep BEFORE DELETE ON memory_mistakecardreview
    FOR EACH ROW EXECUTE FUNCTION memory_only_by_erasure();

-- Decisions, and whatever goes into or out of service, are links of the audit chain.
CREATE FUNCTION memory_audit_cardreview() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM memory_audit_append(NEW.project_id, 'card_review', NEW.id, jsonb_build_object(
        'card', NEW.card_id, 'revision', NEW.revision_id, 'decision', NEW.decision,
        'content_sha256', NEW.content_sha256, 'reviewer', NEW.reviewer, 'request_id', NEW.request_id));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER memory_audit_cardreview AFTER INSERT ON memory_mistakecardreview
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memory_audit_cardreview();
CREATE FUNCTION memory_audit_cardserving() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM memory_audit_append(NEW.project_id, CASE WHEN NEW.served THEN 'card_served' ELSE 'card_withdrawn' END,
        NEW.id, jsonb_build_object('card', NEW.card_id, 'content_sha256', NEW.content_sha256,
                                   'approved_by', NEW.approved_by));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER memory_audit_cardserving AFTER UPDATE ON memory_mistakecardrevision
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.served IS DISTINCT FROM NEW.served)
    EXECUTE FUNCTION memory_audit_cardserving();
CREATE CONSTRAINT TRIGGER memory_audit_cardserving_at_once AFTER INSERT ON memory_mistakecardrevision
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.served) EXECUTE FUNCTION memory_audit_cardserving();

-- All that the record in an agent's prompt is made of. Of runs: figures, no text.
CREATE VIEW servable_mistake_card AS
    SELECT r.id AS revision_id, r.project_id, r.card_id, r.mistake_type, r.task_id, r.worker_id, r.bad_decision,
           r.correct_decision, r.lesson, c.seen_count, c.ranked_count
    FROM memory_mistakecardrevision r JOIN memory_mistakecard c ON c.id = r.card_id
    WHERE r.served AND r.approved_sha256 = r.content_sha256 AND c.merged_into_id IS NULL;
CREATE VIEW servable_outcome AS
    SELECT id, project_id, task_id, agent, outcome, score, created_at FROM memory_trajectory;
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_serving') THEN
        GRANT SELECT ON servable_mistake_card, servable_outcome TO erl_serving;
    END IF;
END $$;
"""

REVERSE = """
DROP VIEW servable_outcome, servable_mistake_card;
DROP TRIGGER memory_audit_cardserving_at_once ON memory_mistakecardrevision;
DROP TRIGGER memory_audit_cardserving ON memory_mistakecardrevision;
DROP TRIGGER memory_audit_cardreview ON memory_mistakecardreview;
DROP TRIGGER memory_cardreview_keep ON memory_mistakecardreview;
DROP TRIGGER memory_cardrevision_keep ON memory_mistakecardrevision;
DROP TRIGGER memory_cardreview_guard ON memory_mistakecardreview;
DROP TRIGGER memory_cardreview_bind ON memory_mistakecardreview;
DROP TRIGGER memory_cardrevision_guard ON memory_mistakecardrevision;
DROP FUNCTION memory_audit_cardserving(), memory_audit_cardreview(), memory_cardreview_bind(),
    memory_cardrevision_guard();
"""

_VIEWED = {
    "mistakecard": "mistake card",
    "mistakecardrevision": "mistake card revision",
    "mistakecardreview": "mistake card review",
    "mistakesighting": "mistake sighting",
    "mistakemerge": "mistake merge",
}
_REVIEW = ("mistakecard", "review_mistakecard", "Can approve, reject, retire and merge mistake cards")


def extend_groups(apps: Any, schema_editor: Any) -> None:
    """Let every group see mistake cards, and reviewers decide on them."""
    viewing = [(model, f"view_{model}", f"Can view {name}") for model, name in _VIEWED.items()]
    for group_name, wanted in {"Auditor": viewing, "Operator": viewing, "Reviewer": [*viewing, _REVIEW]}.items():
        group, _ = apps.get_model("auth", "Group").objects.get_or_create(name=group_name)
        for model, codename, name in wanted:
            kind, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(
                app_label="memory", model=model
            )
            permission, _ = apps.get_model("auth", "Permission").objects.get_or_create(
                content_type=kind, codename=codename, defaults={"name": name}
            )
            group.permissions.add(permission)


class Migration(migrations.Migration):
    dependencies = [("memory", "0014_mistake_cards")]
    operations = [
        migrations.RunSQL(FORWARD, REVERSE),
        migrations.RunPython(extend_groups, migrations.RunPython.noop),
    ]
