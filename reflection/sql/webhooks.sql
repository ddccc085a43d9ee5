-- What keeps the webhooks of projects apart, and their audit. The functions are in memory/sql/projects.sql and
-- memory/sql/audit.sql (reliability C1, C9, D12).

SELECT memory_belongs_to_project('reflection_webhookendpoint');
SELECT memory_belongs_to_project('reflection_webhooksecret');

-- Where a project's events go, and with which secrets. Of the address only the host and a hash are kept: chat services
-- put a secret into theirs.
CREATE OR REPLACE FUNCTION reflection_audit_webhook() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    e reflection_webhookendpoint := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    PERFORM memory_audit_append(e.project_id, 'webhook_' || lower(TG_OP), e.id, jsonb_build_object(
        'host', substring(e.url FROM '^[a-z]+://([^/?#]+)'),
        'url', encode(sha256(convert_to(e.url, 'UTF8')), 'hex'), 'events', to_jsonb(e.events), 'style', e.style,
        'with_text', e.with_text, 'disabled_at', e.disabled_at));
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS reflection_audit_webhook ON reflection_webhookendpoint;
CREATE CONSTRAINT TRIGGER reflection_audit_webhook AFTER INSERT OR DELETE ON reflection_webhookendpoint
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION reflection_audit_webhook();
DROP TRIGGER IF EXISTS reflection_audit_webhook_change ON reflection_webhookendpoint;
CREATE CONSTRAINT TRIGGER reflection_audit_webhook_change AFTER UPDATE ON reflection_webhookendpoint
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.url, OLD.events, OLD.style, OLD.with_text, OLD.disabled_at)
          IS DISTINCT FROM (NEW.url, NEW.events, NEW.style, NEW.with_text, NEW.disabled_at))
    EXECUTE FUNCTION reflection_audit_webhook();

CREATE OR REPLACE FUNCTION reflection_audit_webhook_secret() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp SET timezone = 'UTC' AS $$
BEGIN
    PERFORM memory_audit_append(NEW.project_id, 'webhook_secret_' || lower(TG_OP), NEW.id, jsonb_build_object(
        'endpoint', NEW.endpoint_id, 'fingerprint', NEW.fingerprint, 'retired_at', NEW.retired_at));
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS reflection_audit_webhook_secret ON reflection_webhooksecret;
CREATE CONSTRAINT TRIGGER reflection_audit_webhook_secret AFTER INSERT OR UPDATE ON reflection_webhooksecret
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION reflection_audit_webhook_secret();
