"""Only people count: an approval by an account or by a key that an account owns. Policies approve no card either."""

from importlib import import_module

from django.db import migrations

# 0011 told people apart by names alone, so that two keys without an owner were two people. Who is nobody's account now
# counts as nobody: of a deleted account nothing is left to tell its owner from others.
FORWARD = r"""
-- Whether a label of this project stands for a person: an account, or a client with a key that an account owns.
CREATE FUNCTION memory_is_person(project uuid, label text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM auth_user u WHERE 'user:' || u.username = label)
        OR EXISTS (SELECT FROM memory_apikey k
                   WHERE k.project_id = project AND 'key:' || k.client = label AND k.created_by_id IS NOT NULL)
$$;

CREATE OR REPLACE FUNCTION memory_two_reviewers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.approved_sha256 = '' OR (TG_OP = 'UPDATE' AND OLD.approved_sha256 <> '') THEN
        RETURN NEW;
    END IF;
    -- FOR SHARE waits for whoever is switching the rule on or off.
    PERFORM FROM memory_project WHERE id = NEW.project_id AND four_eyes FOR SHARE;
    IF FOUND AND (NOT memory_is_person(NEW.project_id, NEW.approved_by) OR NOT EXISTS (
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

CREATE FUNCTION memory_person_for_card() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER memory_person_for_card BEFORE INSERT OR UPDATE ON memory_mistakecardrevision
    FOR EACH ROW EXECUTE FUNCTION memory_person_for_card();
"""

_FORMER = import_module("memory.migrations.0011_two_reviewers").FORWARD.partition("CREATE TRIGGER")[0]
REVERSE = f"""
DROP TRIGGER memory_person_for_card ON memory_mistakecardrevision;
DROP FUNCTION memory_person_for_card();
{_FORMER.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")}
DROP FUNCTION memory_is_person(uuid, text);
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0023_serving_role_reads")]
    operations = [migrations.RunSQL(FORWARD, REVERSE)]
