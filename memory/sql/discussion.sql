-- What people said about an item, and who sees to it, ends with the item. The rows name items of several tables, so a
-- foreign key cannot delete them. The tables of other apps have the trigger in their own files.
CREATE OR REPLACE FUNCTION memory_end_discussion() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM memory_comment WHERE object_id = OLD.id;
    DELETE FROM memory_itemstate WHERE object_id = OLD.id;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_heuristic_end_discussion AFTER DELETE ON memory_heuristic
    FOR EACH ROW EXECUTE FUNCTION memory_end_discussion();
CREATE OR REPLACE TRIGGER memory_blockrevision_end_discussion AFTER DELETE ON memory_blockrevision
    FOR EACH ROW EXECUTE FUNCTION memory_end_discussion();
