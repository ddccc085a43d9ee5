"""Programs that try to leave the sandbox. Each tries to return what only someone outside could know.

Where a host has a secret in a file, in its environment, in a service on loopback and in a sibling call, no outcome may
hold it, no file may be written, and the sandbox has to work afterwards. {secret_file}, {mark} and {port} are filled in.
"""

from typing import NamedTuple


class HostileProgram(NamedTuple):
    """A source with a function `tool`, and what it is after."""

    name: str
    goal: str  # file, network, environment, sibling, process or exhaustion
    source: str


def _program(name: str, goal: str, body: str, head: str = "") -> HostileProgram:
    indented = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return HostileProgram(name, goal, f"{head}\ndef tool():\n{indented}\n".lstrip())


PROGRAMS: tuple[HostileProgram, ...] = (
    # ── Files ─────────────────────────────────────────────────────────────────────────────────────────────────────
    _program("open", "file", "return open({secret_file!r}).read()"),
    _program("open_binary", "file", "return open({secret_file!r}, 'rb').read().decode()"),
    _program("open_write", "file", "open({mark!r}, 'w').write('x')\nreturn 'written'"),
    _program("open_append", "file", "with open({mark!r}, 'a') as f:\n    f.write('x')\nreturn 'written'"),
    _program("path_read", "file", "from pathlib import Path\nreturn Path({secret_file!r}).read_text()"),
    _program("path_write", "file", "from pathlib import Path\nPath({mark!r}).write_text('x')\nreturn 'written'"),
    _program("path_walk", "file", "from pathlib import Path\nreturn [str(p) for p in Path('/').iterdir()]"),
    _program("path_traversal", "file", "return open('../../../../../../../..' + {secret_file!r}).read()"),
    _program("os_listdir", "file", "import os\nreturn os.listdir('/')"),
    _program("os_remove", "file", "import os\nos.remove({secret_file!r})\nreturn 'removed'"),
    _program("io_open", "file", "import io\nreturn io.open({secret_file!r}).read()"),
    _program("file_descriptor", "file", "return open(0).read()"),
    _program("proc_self_mem", "file", "return open('/proc/self/maps').read()"),
    _program("import_file", "file", "import sys\nsys.path.append('/')\nreturn __import__('etc.passwd')"),
    # ── Network ───────────────────────────────────────────────────────────────────────────────────────────────────
    _program(
        "socket", "network", "import socket\ns = socket.create_connection(('127.0.0.1', {port}))\nreturn s.recv(99)"
    ),
    _program("urllib", "network", "import urllib.request as u\nreturn u.urlopen('http://127.0.0.1:{port}').read()"),
    _program(
        "http_client",
        "network",
        "from http.client import HTTPConnection\nc = HTTPConnection('127.0.0.1', {port})\nc.request('GET', '/')",
    ),
    _program("asyncio", "network", "import asyncio\nreturn asyncio.open_connection('127.0.0.1', {port})"),
    _program("_socket", "network", "import _socket\nreturn _socket.socket()"),
    _program("ssl", "network", "import ssl\nreturn ssl.get_server_certificate(('127.0.0.1', {port}))"),
    # ── Environment ───────────────────────────────────────────────────────────────────────────────────────────────
    _program("environ", "environment", "import os\nreturn dict(os.environ)"),
    _program("getenv", "environment", "import os\nreturn os.getenv('ERL_HOSTILE_SECRET')"),
    _program("proc_environ", "environment", "return open('/proc/self/environ').read()"),
    _program("parent_environ", "environment", "import os\nreturn open(f'/proc/{{os.getppid()}}/environ').read()"),
    _program("posix", "environment", "import posix\nreturn posix.environ"),
    _program("globals", "environment", "return str(sorted(globals())) + str(globals().get('ERL_HOSTILE_SECRET'))"),
    # ── Processes, and the objects of the interpreter ─────────────────────────────────────────────────────────────
    _program("system", "process", "import os\nreturn os.system('touch ' + {mark!r})"),
    _program("subprocess", "process", "import subprocess\nreturn subprocess.check_output(['touch', {mark!r}])"),
    _program("fork", "process", "import os\nreturn os.fork()"),
    _program("ctypes", "process", "import ctypes\nreturn ctypes.CDLL(None).system(('touch ' + {mark!r}).encode())"),
    _program(
        "subclasses", "process", "return [c.__init__.__globals__ for c in ().__class__.__base__.__subclasses__()]"
    ),
    _program("function_globals", "process", "return tool.__globals__['__builtins__']['__import__']('os').environ"),
    _program(
        "frames",
        "process",
        "try:\n    1 / 0\nexcept Exception as e:\n    return str(e.__traceback__.tb_frame.f_back.f_globals)",
    ),
    _program("eval_import", "process", "return eval(\"__import__('os').popen('cat ' + {secret_file!r}).read()\")"),
    _program("exec_builtins", "process", "exec(\"import builtins; builtins.open({secret_file!r})\")\nreturn 'done'"),
    _program("pickle", "process", "import pickle\nreturn pickle.loads(b'cos\\nsystem\\n(S\"touch {mark}\"\\ntR.')"),
    # ── What another call left, and what the host has ─────────────────────────────────────────────────────────────
    _program("left_global", "sibling", "return left_by_a_sibling"),
    _program("left_module", "sibling", "import json\nreturn json.left_by_a_sibling"),
    _program("host_function", "sibling", "return sibling_secret()"),
    _program("host_attributes", "sibling", "return allowed.__globals__, allowed.__closure__, allowed.__code__"),
    # ── Exhaustion: time, memory, stack and output ────────────────────────────────────────────────────────────────
    _program("endless_loop", "exhaustion", "while True:\n    pass"),
    _program("endless_output", "exhaustion", "while True:\n    print('x' * 10_000)"),
    _program("doubling", "exhaustion", "x = 'x'\nwhile True:\n    x += x"),
    _program("power", "exhaustion", "return 9 ** 9 ** 9"),
    _program("recursion", "exhaustion", "return tool()"),
    _program("shared_lists", "exhaustion", "x = [1] * 1000\nfor i in range(5):\n    x = [x] * 1000\nreturn x"),
    _program("cyclic_list", "exhaustion", "x = []\nx.append(x)\nreturn x"),
    _program("deep_list", "exhaustion", "x = []\nfor i in range(100_000):\n    x = [x]\nreturn x"),
    _program("slow_pattern", "exhaustion", "import re\nreturn bool(re.match('(a+)+$', 'a' * 40 + 'b'))"),
    _program("huge_error", "exhaustion", "raise ValueError('x' * 50_000_000)"),
    _program(
        "swallows_the_limit",
        "exhaustion",
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
    ),
    _program("many_host_calls", "exhaustion", "while True:\n    allowed()"),
)
# What only CPython can try: it has system calls, and the sandbox of the operating system refuses them.
CPYTHON_PROGRAMS: tuple[HostileProgram, ...] = (
    _program(
        "every_file_of_the_host",
        "file",
        "import os\nfound = []\nfor place in ('/', '/etc', '/root', '/home', '/tmp', '/var', '/proc', '/dev'):\n"
        "    try:\n        found += os.listdir(place)\n    except OSError:\n        pass\n"
        "assert not found, 'LISTED'",
    ),
    _program("change_mode", "file", "import os\nos.chmod({secret_file!r}, 0o777)"),
    _program("change_owner", "file", "import os\nos.chown({secret_file!r}, 1, 1)"),
    _program("change_time", "file", "import os\nos.utime({secret_file!r}, (0, 0))"),
    _program("change_attribute", "file", "import os\nos.setxattr({secret_file!r}, 'user.x', b'x')"),
    _program("truncate", "file", "import os\nos.truncate({secret_file!r}, 0)"),
    _program("rename", "file", "import os\nos.rename({secret_file!r}, {mark!r})"),
    _program("hard_link", "file", "import os\nos.link({secret_file!r}, {mark!r})"),
    _program("symbolic_link", "file", "import os\nos.symlink({secret_file!r}, {mark!r})"),
    _program("fifo", "file", "import os\nos.mkfifo({mark!r})"),
    _program("folder", "file", "import os\nos.mkdir({mark!r})"),
    _program("chroot", "file", "import os\nos.chroot('/usr')\nos.chroot('.')\nreturn open({secret_file!r}).read()"),
    _program("shared_memory", "file", "open('/dev/shm/erl-hostile', 'w').write('x')\nopen({mark!r}, 'w')"),
    _program(
        "inherited_files",
        "file",
        "import os\nfound = []\nfor number in range(5, 1024):\n    try:\n        found.append(os.read(number, 4096))\n"
        "    except OSError:\n        pass\nreturn repr(found)",
    ),
    _program(
        "udp", "network", "import socket\nsocket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))"
    ),
    _program("server", "network", "import socket\nsocket.create_server(('127.0.0.1', 0))\nopen({mark!r}, 'w')"),
    _program(
        "unix_socket",
        "network",
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({unix_socket!r})\nreturn s.recv(99).decode()",
    ),
    _program(
        "abstract_socket",
        "network",
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({abstract_socket!r})\nreturn s.recv(99).decode()",
    ),
    _program("raw_socket", "network", "import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW).recv(9999)"),
    _program("exec", "process", "import os\nos.execv('/usr/bin/touch', ['touch', {mark!r}])"),
    _program(
        "exec_python",
        "process",
        "import os, sys\nos.execv(sys.executable, ['p', '-c', 'open(' + repr({mark!r}) + ', \"w\")'])",
    ),
    _program("raw_fork", "process", "import ctypes\nassert ctypes.CDLL(None).syscall(57) == -1, 'FORKED'"),
    _program("kill_parent", "process", "import os\nos.kill(os.getppid(), 9)"),
    _program("kill_all", "process", "import os\nos.kill(-1, 9)"),
    _program("kill_group", "process", "import os\nos.killpg(os.getpgid(os.getppid()), 9)"),
    _program(
        "trace_parent",
        "process",
        "import ctypes, os\nassert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == -1, 'TRACED'",
    ),
    _program(
        "memory_of_parent",
        "process",
        "import os\nwith open(f'/proc/{{os.getppid()}}/mem', 'rb') as memory:\n    return repr(memory.read(9))",
    ),
    _program(
        "slow_down_parent",
        "process",
        "import os\nos.setpriority(os.PRIO_PROCESS, os.getppid(), 19)\nopen({mark!r}, 'w')",
    ),
    _program("namespace", "process", "import ctypes\nassert ctypes.CDLL(None).unshare(0x10000000) == -1, 'NAMESPACE'"),
    _program("fork_bomb", "exhaustion", "import os\nwhile True:\n    os.fork()"),
    _program(
        "threads", "exhaustion", "import threading, time\nwhile True:\n    threading.Thread(target=input).start()"
    ),
    _program(
        "memory_by_mmap", "exhaustion", "import mmap\nkept = []\nwhile True:\n    kept.append(mmap.mmap(-1, 1 << 24))"
    ),
    _program(
        "forged_lines",
        "exhaustion",
        "import os\nwhile True:\n    for number in range(9):\n"
        "        try:\n            os.write(number, b'[' * 65_536)\n        except OSError:\n            pass",
    ),
    _program(
        "forged_call",
        "sibling",
        "import os\nfor number in range(3, 9):\n    try:\n"
        '        os.write(number, b\'{{"call": "sibling_secret", "args": [], "kwargs": {{}}}}\\n\')\n'
        "    except OSError:\n        pass\nreturn input()",
    ),
    _program("dies", "exhaustion", "import os\nos.abort()"),
)
assert len(PROGRAMS) >= 40
