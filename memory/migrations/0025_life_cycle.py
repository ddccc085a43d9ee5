"""A lesson moves between the places of its life only as the services move it (reliability C11)."""

from django.db import migrations

# The pairs are those of memory/heuristics/life_cycle.py; a test compares them.
FORWARD = r"""
CREATE FUNCTION memory_move_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Erasure takes a wording away and puts the rest where it was.
    IF (OLD.status || ' ' || NEW.status) = ANY (TG_ARGV[0]::text[])
       OR current_setting('erl.erasing', true) IS NOT DISTINCT FROM 'on' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% does not move from % to %', TG_TABLE_NAME, OLD.status, NEW.status
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER memory_heuristic_move BEFORE UPDATE OF status ON memory_heuristic
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION memory_move_guard('{
        proposed approved, proposed rejected, proposed retired, proposed quarantined, proposed superseded,
        approved proposed, approved retired, approved quarantined, approved superseded,
        rejected proposed, retired proposed, retired approved, quarantined proposed, quarantined approved,
        superseded proposed}');
CREATE TRIGGER memory_mistakecard_move BEFORE UPDATE OF status ON memory_mistakecard
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION memory_move_guard('{
        proposed approved, proposed rejected, proposed retired, approved proposed, approved retired,
        rejected proposed, retired proposed}');

-- At the commit an approved lesson serves a wording, and one that was refused or withdrawn serves none. A wording is
-- served only where somebody approved exactly its hash, so nothing becomes approved without a reviewer.
CREATE FUNCTION memory_status_agrees() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    lesson uuid;
    place text;
    serves boolean;
BEGIN
    IF TG_TABLE_NAME = 'memory_heuristic' THEN
        lesson := NEW.id;
    ELSE
        lesson := NEW.heuristic_id;
    END IF;
    SELECT h.status, EXISTS (SELECT FROM memory_heuristicrevision v WHERE v.heuristic_id = h.id AND v.served)
    INTO place, serves FROM memory_heuristic h WHERE h.id = lesson;
    IF (place = 'approved' AND NOT serves) OR (place NOT IN ('approved', 'proposed') AND serves) THEN
        RAISE EXCEPTION 'the heuristic % is % and % a wording', lesson, place,
            CASE WHEN serves THEN 'serves' ELSE 'does not serve' END USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER memory_status_agrees AFTER UPDATE OF status ON memory_heuristic
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION memory_status_agrees();
CREATE CONSTRAINT TRIGGER memory_status_agrees_at_once AFTER INSERT ON memory_heuristic
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.status <> 'proposed')
    EXECUTE FUNCTION memory_status_agrees();
CREATE CONSTRAINT TRIGGER memory_service_agrees AFTER UPDATE OF served ON memory_heuristicrevision
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.served IS DISTINCT FROM NEW.served)
    EXECUTE FUNCTION memory_status_agrees();
CREATE CONSTRAINT TRIGGER memory_service_agrees_at_once AFTER INSERT ON memory_heuristicrevision
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.served) EXECUTE FUNCTION memory_status_agrees();
"""

REVERSE = """
DROP TRIGGER memory_service_agrees_at_once ON memory_heuristicrevision;
DROP TRIGGER memory_service_agrees ON memory_heuristicrevision;
DROP TRIGGER memory_status_agrees_at_once ON memory_heuristic;
DROP TRIGGER memory_status_agrees ON memory_heuristic;
DROP TRIGGER memory_mistakecard_move ON memory_mistakecard;
DROP TRIGGER memory_heuristic_move ON memory_heuristic;
DROP FUNCTION memory_status_agrees(), memory_move_guard();
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0024_owned_keys")]
    operations = [migrations.RunSQL(FORWARD, REVERSE)]
