"""Two people's eyes: where a project asks for them, the database takes no approval of one person alone."""

from django.db import migrations

# An approval is the moment `approved_sha256` is filled; it is immutable afterwards (0002_guards). What was approved
# before the project asked for two reviewers stays approved. A rule that runs without a person is nobody's eyes. A
# person who renamed the account, or who made the key the other approval came by, is the same person.
FORWARD = r"""
CREATE FUNCTION memory_two_reviewers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.approved_sha256 = '' OR (TG_OP = 'UPDATE' AND OLD.approved_sha256 <> '') THEN
        RETURN NEW;
    END IF;
    -- FOR SHARE waits for whoever is switching the rule on or off.
    PERFORM FROM memory_project WHERE id = NEW.project_id AND four_eyes FOR SHARE;
    IF FOUND AND (NEW.approved_by LIKE 'policy:%' OR NOT EXISTS (
        SELECT FROM memory_review v
        LEFT JOIN memory_apikey k ON k.id = v.reviewer_key_id
        WHERE v.revision_id = NEW.id AND v.decision = 'first_approval' AND v.content_sha256 = NEW.approved_sha256
            AND v.reviewer <> NEW.approved_by AND v.reviewer NOT LIKE 'policy:%'
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
CREATE TRIGGER memory_two_reviewers BEFORE INSERT OR UPDATE ON memory_heuristicrevision
    FOR EACH ROW EXECUTE FUNCTION memory_two_reviewers();
"""

REVERSE = """
DROP TRIGGER memory_two_reviewers ON memory_heuristicrevision;
DROP FUNCTION memory_two_reviewers();
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0010_review_workflow"), ("auth", "0012_alter_user_first_name_max_length")]
    operations = [migrations.RunSQL(FORWARD, REVERSE)]
