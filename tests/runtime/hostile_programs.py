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
# Calls of the system with arguments that would work. Each has to be refused as such, before the kernel looks at more.
_HEAD = """
import ctypes, fcntl, mmap, os, resource, signal, socket, struct, time
libc = ctypes.CDLL(None, use_errno=True)
parent = os.getppid()
def system_call(number, *arguments):
    raise_at(libc.syscall(number, *arguments))
def raise_at(answer):
    if answer == -1:
        raise OSError(ctypes.get_errno(), "refused")
"""
_REFUSED = {
    "limits_of_parent": "resource.prlimit(parent, resource.RLIMIT_NOFILE)",
    "limits_of_parent_lowered": "resource.prlimit(parent, resource.RLIMIT_CORE, (0, 0))",
    "own_limits_raised": "resource.prlimit(0, resource.RLIMIT_NOFILE, (64, 64))",
    "signals_of_a_pipe_to_parent": "fcntl.fcntl(0, 8, parent)",
    "signal_of_a_pipe": "fcntl.fcntl(0, 10, signal.SIGKILL)",
    "asynchronous_pipe": "fcntl.fcntl(0, fcntl.F_SETFL, os.O_ASYNC)",
    "size_of_a_pipe": "fcntl.fcntl(0, 1031, 1 << 20)",
    "lease": "fcntl.fcntl(os.open(os.__file__, 0), 1024, 0)",
    "lock": "fcntl.lockf(os.open(os.__file__, 0), fcntl.LOCK_SH)",
    "lock_of_a_whole_file": "fcntl.flock(os.open(os.__file__, 0), fcntl.LOCK_SH)",
    "advice_to_break_memory": "mmap.mmap(-1, 4096).madvise(100)",
    "pages_shared_with_others": "mmap.mmap(-1, 4096).madvise(12)",
    "locked_memory": "mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x2000)",
    "huge_pages": "mmap.mmap(-1, 1 << 21, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)",
    "processors_of_parent": "os.sched_getaffinity(parent)",
    "own_processors": "os.sched_setaffinity(0, [0])",
    "scheduling_of_parent": "os.sched_getscheduler(parent)",
    "scheduling": "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))",
    "priority_of_parent": "os.getpriority(os.PRIO_PROCESS, parent)",
    "processor_time_of_parent": "time.clock_gettime((~parent << 3) | 2)",
    "group_of_parent": "os.getpgid(parent)",
    "session_of_parent": "os.getsid(parent)",
    "own_session": "os.setsid()",
    "other_user": "os.setresuid(1, 1, 1)",
    "set_the_clock": "time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME))",
    "time_zone_of_the_kernel": "raise_at(libc.settimeofday(None, ctypes.create_string_buffer(8)))",
    "adjust_the_clock": "raise_at(libc.adjtimex(ctypes.create_string_buffer(512)))",
    "program_of_first_process": "os.readlink('/proc/1/exe')",
    "folder_of_parent": "os.readlink(f'/proc/{{parent}}/cwd')",
    "path_without_reading": "os.open({secret_file!r}, os.O_PATH)",
    "space_on_disk": "os.statvfs('/')",
    "other_folder": "os.chdir('/usr')",
    "file_in_memory": "os.memfd_create('x')",
    "program_in_memory": "raise_at(libc.fexecve(1, struct.pack('P', 0), struct.pack('P', 0)))",
    "handle_of_parent": "os.pidfd_open(parent)",
    "signal_by_handle": "signal.pidfd_send_signal(0, 0)",
    "file_of_parent": "system_call(438, 0, 0, 0)",
    "memory_advice_for_parent": "system_call(440, 0, 0, 0, 4, 0)",
    "memory_of_dying_process": "system_call(448, 0, 0)",
    "read_memory_of_parent": "raise_at(libc.process_vm_readv(parent, None, 0, None, 0, 0))",
    "ring": "system_call(425, 1, ctypes.create_string_buffer(120))",
    "landlock": "system_call(444, None, 0, 1)",
    "namespace_by_clone3": "system_call(435, struct.pack('8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64)",
    "own_filter": "raise_at(libc.prctl(22, 2, struct.pack('HxxxxxxP', 0, 0)))",
    "to_be_dumped": "raise_at(libc.prctl(4, 1, 0, 0, 0))",
    "pair_of_sockets": "socket.socketpair()",
    "signal_itself": "os.kill(os.getpid(), 0)",
}
SYSTEM_CALLS: tuple[HostileProgram, ...] = (
    *(
        _program(
            name,
            "process",
            f"try:\n    {call}\nexcept OSError as error:\n    assert error.errno in (1, 38), repr(error)\n"
            "else:\n    assert False, 'ANSWERED'",
            _HEAD,
        )
        for name, call in _REFUSED.items()
    ),
    _program(
        "limits_of_all_processes",
        "process",
        "answered = []\nfor process in [*range(1, 4096), *range(max(1, parent - 99), parent + 99)]:\n    try:\n"
        "        answered.append(resource.prlimit(process, resource.RLIMIT_CORE))\n"
        "    except PermissionError:\n        pass\n    except ProcessLookupError:\n"
        "        answered.append(process)\nassert not answered, 'ANSWERED'",
        _HEAD,
    ),
    _program(
        "calls_of_x32",
        "process",
        "assert libc.syscall((1 << 30) + 39) != os.getpid(), 'ANSWERED'",
        _HEAD,
    ),
    _program(
        "calls_of_32_bits",
        "process",
        # getpid by int 0x80: mov eax, 20; int 0x80; ret
        "code = mmap.mmap(-1, 4096, prot=7)\ncode.write(bytes.fromhex('b814000000cd80c3'))\n"
        "start = ctypes.addressof(ctypes.c_char.from_buffer(code))\n"
        "assert ctypes.CFUNCTYPE(ctypes.c_int)(start)() != os.getpid(), 'ANSWERED'",
        _HEAD,
    ),
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
    *SYSTEM_CALLS,
)
assert len(PROGRAMS) >= 40
