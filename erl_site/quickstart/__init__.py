"""The parts of `manage.py quickstart`, which runs the whole product on one machine."""
