"""A client process. For each line `<path> <key>` on standard input: post once, answer `<status> <body>` on a line."""

import http.client
import json
import sys


def main(port: int, token: str) -> None:
    for line in sys.stdin:
        path, key = line.split()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key, "Content-Type": "application/json"}
        connection.request("POST", path, json.dumps({"task": key, "reflect": False}), headers)
        response = connection.getresponse()
        print(response.status, response.read().decode(), flush=True)
        connection.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
