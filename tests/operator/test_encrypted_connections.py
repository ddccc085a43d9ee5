"""Encrypted connections to PostgreSQL and the broker: real servers, with a certificate authority of ours.

The embedded PostgreSQL and Valkey are built without TLS: PostgreSQL is Debian's, and HAProxy ends TLS before Valkey.
"""

import ipaddress
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.conf import settings

from erl_site.embedded import valkey
from erl_site.embedded.accounts import choose_account
from tests.programs import require_program
from tests.servers import HOME
from tests.stack import ROOT, free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.nightly

DATABASE = """
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    print(cursor.fetchone())
"""
PROGRAM = """
from erl_site.backup import find_program, run_program, write_url
asked = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
print(run_program(find_program("psql"), "--dbname=" + write_url("postgres"), "-tAc", asked))
"""
BROKER = """
from erl_site.celery import app
from erl_site.web.health import ask_broker
ask_broker()
print("answers")
with app.connection_for_write() as connection:
    connection.ensure_connection(max_retries=1)
    connection.default_channel.client.ping()
    print("published")
"""


class Authority:
    """A certificate authority, whose certificate is in `ca.pem` of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.key = folder, ec.generate_private_key(ec.SECP256R1())
        folder.mkdir()
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"ERL test authority {folder.name}")])
        certificate = self._sign(self.name, self.key.public_key(), x509.BasicConstraints(ca=True, path_length=None))
        self.file = folder / "ca.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, folder: Path, *, owner: int) -> tuple[Path, Path]:
        """Write the certificate and the key of a server on this machine."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        certificate = self._sign(x509.Name([]), key.public_key(), names)
        files = folder / "server.pem", folder / "server.key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        files[1].write_bytes(key.private_bytes(*form))
        files[1].chmod(0o600)
        shutil.chown(files[1], owner)
        return files

    def _sign(self, name: x509.Name, key: ec.EllipticCurvePublicKey, extension: x509.ExtensionType) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(self.name, name, key, x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
        return builder.add_extension(extension, critical=True).sign(self.key, hashes.SHA256())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    for path in (folder, *folder.parents[:3]):
        path.chmod(0o755)  # PostgreSQL and HAProxy run as another user
    return folder


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder / "ours")


@pytest.fixture(scope="module")
def stranger(folder: Path) -> Authority:
    """An authority that signed nothing here."""
    return Authority(folder / "theirs")


@contextmanager
def running(command: list[str], answers: Callable[[], bool]) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: process.poll() is not None or answers())
        assert process.poll() is None, f"{command[-1]} ended"
        yield
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def database(folder: Path, authority: Authority) -> Iterator[str]:
    """The URL of a PostgreSQL that takes encrypted connections only, without options."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
    if programs is None:
        require_program("postgres")  # says how to install it
    account = choose_account(HOME / "postgres")
    data, port = folder / "data", free_port()
    data.mkdir()
    shutil.chown(data, account.uid)
    initdb = [*account.prefix, f"{programs}/initdb", "--auth=trust", "--username=erl", "--no-sync", f"--pgdata={data}"]
    subprocess.run(initdb, check=True, capture_output=True)
    certificate, key = authority.issue(folder, owner=account.uid)
    (data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 trust\n")
    options = {"ssl": "on", "ssl_cert_file": certificate, "ssl_key_file": key, "port": port}
    options |= {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
    command = [*account.prefix, f"{programs}/postgres", "-D", str(data)]
    command += [f"--{name}={value}" for name, value in options.items()]
    url = f"postgresql://erl@127.0.0.1:{port}/postgres"
    with running(command, lambda: can_connect(url)):
        yield url


def can_connect(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture(scope="module")
def broker(folder: Path, authority: Authority) -> Iterator[str]:
    """The URL of a Valkey behind TLS, without options."""
    valkey.ensure(settings.ERL_HOME / "valkey", durable=False)
    unix_socket = valkey.socket_path(settings.ERL_HOME / "valkey")
    place = folder / "haproxy"
    place.mkdir()
    certificate, key = authority.issue(place, owner=os.geteuid())
    (place / "both.pem").write_bytes(certificate.read_bytes() + key.read_bytes())
    port = free_port()
    configuration = place / "haproxy.cfg"
    configuration.write_text(
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n"
        f"frontend tls\n  bind 127.0.0.1:{port} ssl crt {place}/both.pem\n  default_backend valkey\n"
        f"backend valkey\n  server valkey unix@{unix_socket}\n"
    )
    with running([require_program("haproxy"), "-db", "-f", str(configuration)], lambda: listens(port)):
        yield f"rediss://127.0.0.1:{port}/0"


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def run_product(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of the product with settings of its own."""
    return subprocess.run(
        [sys.executable, "manage.py", "shell", "--verbosity", "0", "-c", code],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_database_is_reached_only_encrypted(database: str, authority: Authority) -> None:
    url = f"{database}?sslmode=verify-full&sslrootcert={authority.file}"

    done = run_product(DATABASE, DATABASE_URL=url)

    assert done.stdout.strip() == "(True, 'TLSv1.3')", done.stderr
    assert not can_connect(f"{database}?sslmode=disable")


def test_programs_of_a_backup_connect_in_the_same_way(database: str, authority: Authority, stranger: Authority) -> None:
    # A setting of libpq that DATABASE_URL overrides: a program that lost its options would not connect.
    elsewhere = {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": str(stranger.file)}

    done = run_product(
        PROGRAM, DATABASE_URL=f"{database}?sslmode=verify-full&sslrootcert={authority.file}", **elsewhere
    )

    assert done.stdout.strip() == "t", done.stderr


def test_database_with_the_certificate_of_a_stranger_is_refused(database: str, stranger: Authority) -> None:
    done = run_product(DATABASE, DATABASE_URL=f"{database}?sslmode=verify-full&sslrootcert={stranger.file}")

    assert done.returncode != 0
    assert "certificate verify failed" in done.stderr


def test_database_under_another_name_is_refused(database: str, authority: Authority) -> None:
    url = f"{database.replace('127.0.0.1', 'localhost')}?sslmode=verify-full&sslrootcert={authority.file}"

    assert 'does not match host name "localhost"' in run_product(DATABASE, DATABASE_URL=url).stderr


def test_broker_is_reached_encrypted(broker: str, authority: Authority) -> None:
    url = f"{broker}?ssl_cert_reqs=required&ssl_ca_certs={authority.file}"

    done = run_product(BROKER, CELERY_BROKER_URL=url)

    assert done.stdout.splitlines() == ["answers", "published"], done.stderr


def test_broker_with_the_certificate_of_a_stranger_is_refused(broker: str, stranger: Authority) -> None:
    done = run_product(BROKER, CELERY_BROKER_URL=f"{broker}?ssl_cert_reqs=required&ssl_ca_certs={stranger.file}")

    assert done.returncode != 0
    assert "CERTIFICATE_VERIFY_FAILED" in done.stderr
