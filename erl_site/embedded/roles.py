"""The database roles of the embedded server (roles.sql). The settings import this module."""

from pathlib import Path

ADMINISTRATOR = "postgres"
OWNER = "erl_owner"
APPLICATION = "erl"
STATEMENTS = Path(__file__).with_name("roles.sql")
