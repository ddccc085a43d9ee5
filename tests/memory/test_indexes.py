"""No index is the beginning of another one of its table: it would cost every write and help no search."""

import pytest
from django.db import connection

REDUNDANT = """
SELECT short.indexrelid::regclass::text, long.indexrelid::regclass::text
FROM pg_index short
JOIN pg_index long ON long.indrelid = short.indrelid AND long.indexrelid <> short.indexrelid
JOIN pg_class ON pg_class.oid = short.indrelid
WHERE pg_class.relname ~ '^(memory|reflection|agents|evaluation)_'
  AND NOT short.indisunique AND short.indnkeyatts = 1
  AND short.indkey[0] > 0 AND short.indkey[0] = long.indkey[0]
  AND short.indclass[0] = long.indclass[0] AND short.indpred IS NULL
  AND (long.indpred IS NULL
       OR long.indnkeyatts = 1 AND pg_get_expr(long.indpred, long.indrelid) ~ '^\\(\\w+ IS NOT NULL\\)$')
ORDER BY 1
"""


@pytest.mark.django_db
def test_no_index_is_the_beginning_of_another() -> None:
    with connection.cursor() as cursor:
        cursor.execute(REDUNDANT)

        assert cursor.fetchall() == []
