"""The whole product on one machine: what `manage.py quickstart` is made of."""
