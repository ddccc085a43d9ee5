"""A company's proxy: it takes CONNECT, and opens the TLS of every connection with an authority of its own."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(kw_only=True)
class InspectingProxy:
    """Where it listens, its authority, and what it was asked: the targets, and the credentials with them."""

    folder: Path
    upstream: int  # port on this machine that answers for every host
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    targets: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    refuses: bool = False
    has_expired: bool = False  # the certificates that it shows

    def __post_init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Inspection")
        authority = self._sign(self._name, x509.BasicConstraints(ca=True, path_length=None))
        (self.folder / "authority.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))

    @property
    def url(self) -> str:
        return f"http://agent:secret@127.0.0.1:{self.listener.getsockname()[1]}"

    @property
    def authority(self) -> Path:
        return self.folder / "authority.pem"

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                Thread(target=self._handle, args=[connection], daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(4096)
        self.heads.append(head.decode())
        self.targets.append(head.split()[1].decode())
        if self.refuses:
            connection.sendall(b"HTTP/1.1 403 Filtered\r\ncontent-length: 0\r\n\r\n")
            connection.close()
            return
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        host = self.targets[-1].rpartition(":")[0]
        try:
            inside = self._context(host).wrap_socket(connection, server_side=True)
        except OSError:  # its client does not trust the authority
            connection.close()
            return
        with inside, socket.create_connection(("127.0.0.1", self.upstream)) as beyond:
            back = Thread(target=_pass_on, args=[beyond, inside], daemon=True)
            back.start()
            _pass_on(inside, beyond)
            back.join(5)

    def _context(self, host: str) -> ssl.SSLContext:
        certificate = self._sign(_name(host), x509.SubjectAlternativeName([x509.DNSName(host)]))
        key = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = self.folder / f"{host}.pem"
        file.write_bytes(key + certificate.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _sign(self, subject: x509.Name, extension: x509.ExtensionType) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(
            subject_name=subject, issuer_name=self._name, public_key=self._key.public_key()
        )
        builder = builder.serial_number(x509.random_serial_number()).add_extension(extension, critical=False)
        end = now - timedelta(hours=1) if self.has_expired else now + timedelta(days=1)
        builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(end)
        return builder.sign(self._key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def inspecting_proxy(upstream: int, folder: Path) -> Iterator[InspectingProxy]:
    """Run the proxy before a server on this machine, which answers for every host."""
    proxy = InspectingProxy(upstream=upstream, folder=folder)
    Thread(target=proxy.serve, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.listener.close()
