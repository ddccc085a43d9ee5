"""Who owns a key is in the audit, and an account that was switched off is nobody's eyes."""

from importlib import import_module

from django.db import migrations

_AUDIT_KEY = r"""
CREATE OR REPLACE FUNCTION memory_audit_key() RETURNS trigger LANGUAGE plpgsql SET timezone = 'UTC' AS $$
DECLARE
    k memory_apikey := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    PERFORM memory_audit_append(k.project_id, 'key_' || lower(TG_OP), k.id, jsonb_build_object(
        'prefix', k.prefix, 'client', k.client, 'scopes', to_jsonb(k.scopes), 'expires_at', k.expires_at,
        'revoked_at', k.revoked_at, 'owner', k.created_by_id,
        'secret', encode(sha256(convert_to(k.secret_sha256, 'UTF8')), 'hex')));
    RETURN NULL;
END $$;
"""
_CHANGE = """
DROP TRIGGER memory_audit_key_change ON memory_apikey;
CREATE CONSTRAINT TRIGGER memory_audit_key_change AFTER UPDATE ON memory_apikey
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.project_id, OLD.prefix, OLD.client, OLD.scopes, OLD.expires_at, OLD.revoked_at, OLD.secret_sha256{old})
          IS DISTINCT FROM
          (NEW.project_id, NEW.prefix, NEW.client, NEW.scopes, NEW.expires_at, NEW.revoked_at, NEW.secret_sha256{new}))
    EXECUTE FUNCTION memory_audit_key();
"""
_PERSON = r"""
CREATE OR REPLACE FUNCTION memory_is_person(project uuid, label text) RETURNS boolean LANGUAGE sql STABLE
SECURITY DEFINER AS $$
    SELECT EXISTS (SELECT FROM auth_user u WHERE 'user:' || u.username = label AND u.is_active)
        OR EXISTS (SELECT FROM memory_apikey k JOIN auth_user u ON u.id = k.created_by_id
                   WHERE k.project_id = project AND 'key:' || k.client = label AND u.is_active)
$$;
"""
FORWARD = _AUDIT_KEY + _CHANGE.format(old=", OLD.created_by_id", new=", NEW.created_by_id") + _PERSON


def _former(module: str, name: str) -> str:
    """Return a function as an earlier migration made it."""
    forward: str = import_module(f"memory.migrations.{module}").FORWARD
    start = forward.index(f"CREATE FUNCTION {name}(")
    return forward[start : forward.index("$$;", start) + 3].replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")


REVERSE = "\n".join(
    [
        _former("0024_owned_keys", "memory_is_person"),
        "ALTER FUNCTION memory_is_person(uuid, text) SECURITY DEFINER;",
        _CHANGE.format(old="", new=""),
        _former("0008_audit_chain", "memory_audit_key"),
    ]
)


class Migration(migrations.Migration):
    dependencies = [("memory", "0027_tenant_role")]
    operations = [migrations.RunSQL(FORWARD, REVERSE)]
