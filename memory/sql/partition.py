"""Statements with which a migration partitions a table that exists; each is part of a `DO` block."""


def take_over(table: str) -> str:
    """Give a new table the foreign keys and the rights of the table `was`, which keeps none; needs `each record`."""
    return f"""
    FOR each IN SELECT format('ALTER TABLE {table} ADD CONSTRAINT %I %s', conname, pg_get_constraintdef(oid)) AS it
        FROM pg_constraint WHERE conrelid = was AND contype = 'f'
        UNION ALL SELECT format('GRANT %s ON {table} TO %s', privilege_type, grantee::regrole)
        FROM pg_class, aclexplode(relacl) WHERE oid = was AND grantee NOT IN (0, relowner)
        UNION ALL SELECT format('REVOKE ALL ON %s FROM %s', was, grantee::regrole)
        FROM pg_class, aclexplode(relacl) WHERE oid = was AND grantee NOT IN (0, relowner)
    LOOP
        EXECUTE each.it;
    END LOOP;
    PERFORM memory_belongs_to_project('{table}');
"""  # noqa: S608 - names from migrations
