"""What else a search reads, and the serving role may: states, the search index, quotas. None of it holds a lesson."""

from django.db import migrations

FORWARD = r"""
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_serving') THEN
        GRANT SELECT ON memory_servedchange, memory_searchindex, memory_polarityquota TO erl_serving;
    END IF;
END $$;
"""
REVERSE = r"""
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_serving') THEN
        REVOKE SELECT ON memory_servedchange, memory_searchindex, memory_polarityquota FROM erl_serving;
    END IF;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0022_search_index")]
    operations = [migrations.RunSQL(FORWARD, REVERSE)]
