"""A socket that counts its connections."""

import socket
from threading import Thread

from memory.connections import default_ssl_context

TRUSTS_SYSTEM = default_ssl_context()


class Listener:
    """A socket on all local addresses that counts its connections."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("", 0))
        self.port: int = self._socket.getsockname()[1]
        self.connections = 0
        self._thread = Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
