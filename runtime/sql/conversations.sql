-- What conversations and their messages refer to, and what people do with conversations, in the audit chain.

SELECT memory_refers_within('agents_conversation', '{forked_from_id}', '{agent_id}', '{agent_id}');
SELECT memory_belongs_to_project('agents_conversation');
SELECT memory_belongs_to_project('agents_message');

-- A conversation that a person or a key rewound or deleted. One that goes with its agent or project says nothing itself.
CREATE OR REPLACE FUNCTION agents_audit_conversation() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        PERFORM memory_audit_append(NEW.project_id, 'conversation_rewound', NEW.id, jsonb_build_object(
            'to', NEW.rewound_to, 'by', NEW.rewound_by));
    ELSIF EXISTS (SELECT FROM agents_agent g WHERE g.id = OLD.agent_id) THEN
        PERFORM memory_audit_append(OLD.project_id, 'conversation_deleted', OLD.id, jsonb_build_object(
            'agent', OLD.agent_id, 'messages', OLD.messages_written));
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS agents_audit_conversation ON agents_conversation;
CREATE CONSTRAINT TRIGGER agents_audit_conversation AFTER UPDATE ON agents_conversation
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.rewound_at IS DISTINCT FROM NEW.rewound_at)
    EXECUTE FUNCTION agents_audit_conversation();
DROP TRIGGER IF EXISTS agents_audit_conversation_deleted ON agents_conversation;
CREATE CONSTRAINT TRIGGER agents_audit_conversation_deleted AFTER DELETE ON agents_conversation
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION agents_audit_conversation();
