"""The walls of a cell on Linux: namespaces of its own, and a root that holds next to nothing.

No package outside the standard library, and none of this project: the cell's process loads this
file by its path, before the walls stand. Each function raises OSError where the kernel refuses
(user namespaces turned off, a container that forbids `unshare`, a kernel before 5.12).
"""

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

_NEW_USER, _NEW_NS, _NEW_PID, _NEW_NET = 0x10000000, 0x20000, 0x20000000, 0x40000000
_NEW_IPC, _NEW_UTS = 0x8000000, 0x4000000
_BIND, _REC, _PRIVATE, _REMOUNT, _READ_ONLY = 0x1000, 0x4000, 0x40000, 0x20, 0x1
_NO_SUID, _NO_DEV = 0x2, 0x4
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_DETACH = 2
_SET_DEATH_SIGNAL, _NO_NEW_PRIVILEGES, _KILL = 1, 38, 9
NOBODY = 65534
_SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin")
_ROOM = "/tmp"  # noqa: S108
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")


class _Attributes(ctypes.Structure):
    """struct mount_attr of mount_setattr(2)."""

    _fields_ = [
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_ns", ctypes.c_uint64),
    ]


def separate() -> None:
    """Leave every namespace that others are in; only children are processes of the new one.

    Root is mapped beside `nobody`, so that it can build the cell and hand it to nobody; others
    are mapped to themselves. A second process, outside, must write a map of two.
    """
    uid, gid = os.getuid(), os.getgid()
    told_r, told_w = os.pipe()
    done_r, done_w = os.pipe()
    me, helper = os.getpid(), os.fork() if uid == 0 else -1
    if helper == 0:
        _map_from_outside(me, told_r, done_w)
    _call("unshare", _NEW_USER | _NEW_NS | _NEW_PID | _NEW_NET | _NEW_IPC | _NEW_UTS)
    die_with_parent()
    if helper < 0:
        _map(Path("/proc/self"), f"{uid} {uid} 1", f"{gid} {gid} 1")
    else:
        os.write(told_w, b"!")
        said = os.read(done_r, 1)
        os.waitpid(helper, 0)
        if said != b"k":
            raise PermissionError(1, "the map of users could not be written")
    for pipe in (told_r, told_w, done_r, done_w):
        os.close(pipe)


def _map_from_outside(pid: int, told_r: int, done_w: int) -> None:
    """Runs in a process of its own, and ends it."""
    try:
        os.read(told_r, 1)
        two = f"0 0 1\n{NOBODY} {NOBODY} 1"
        _map(Path(f"/proc/{pid}"), two, two)
        os.write(done_w, b"k")
    except OSError:
        os.write(done_w, b"n")
    finally:
        os._exit(0)


def _map(process: Path, users: str, groups: str) -> None:
    if os.getuid() != 0:
        (process / "setgroups").write_text("deny")
    (process / "uid_map").write_text(users)
    (process / "gid_map").write_text(groups)


def enclose(room_bytes: int) -> None:
    """Make a root of the interpreter, the system's libraries and an empty /tmp; forget the old.

    room_bytes: of /tmp, all files together.
    """
    with suppress(OSError):  # where it can be said: nobody in here gets namespaces of their own
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
    _mount(None, "/", None, _REC | _PRIVATE)
    root, room = _ROOM, _ROOM + _ROOM  # a folder every system has; the mounts are ours alone
    keep = [(path, os.open(path, os.O_PATH)) for path in _needed() if Path(path).exists()]
    links = [(path, Path(path).readlink()) for path in _SYSTEM if Path(path).is_symlink()]
    _mount("cell", root, "tmpfs", _NO_SUID | _NO_DEV, "mode=755,size=1m")
    for path, handle in keep:
        inside = Path(root + path)
        source = f"/proc/self/fd/{handle}"
        inside.parent.mkdir(parents=True, exist_ok=True)
        if Path(source).is_dir():
            inside.mkdir(exist_ok=True)
        else:
            inside.touch()
        _mount(source, str(inside), None, _BIND | _REC)
        os.close(handle)
    for path, target in links:
        Path(root + path).symlink_to(target)
    Path(room).mkdir(exist_ok=True)
    _read_only(root)
    _mount("room", room, "tmpfs", _NO_SUID | _NO_DEV, f"mode=1777,size={room_bytes}")
    os.chdir(root)
    _call("pivot_root", b".", b".")
    _call("umount2", b".", _DETACH)
    os.chdir(_ROOM)


def _needed() -> list[str]:
    """What the interpreter cannot start without."""
    found = [path for path in _SYSTEM if not Path(path).is_symlink()]
    prefixes = {str(Path(sys.base_prefix).resolve()), str(Path(sys.base_exec_prefix).resolve())}
    found += sorted(p for p in prefixes if not p.startswith(("/usr/", "/lib")) and p != "/usr")
    return [*found, "/etc/ld.so.cache", *_DEVICES]


def _read_only(path: str) -> None:
    """This mount and all below it."""
    how = _Attributes(set=_READ_ONLY | _NO_SUID, clear=0, propagation=0, user_ns=0)
    _call(
        "syscall", ctypes.c_long(_MOUNT_SETATTR), ctypes.c_long(_AT_FDCWD), path.encode(),
        ctypes.c_long(_AT_RECURSIVE), ctypes.byref(how), ctypes.c_long(ctypes.sizeof(how)),
    )  # fmt: skip


def surrender() -> None:
    """Be nobody where one was root, and gain nothing by what is executed next."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    die_with_parent()


def die_with_parent() -> None:
    """A cell is never left behind."""
    _call("prctl", _SET_DEATH_SIGNAL, _KILL, 0, 0, 0)


def _mount(source: str | None, target: str, kind: str | None, flags: int, how: str = "") -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind)]
    _call("mount", *encoded, ctypes.c_ulong(flags), how.encode() or None)


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    function = getattr(libc, name, None)
    if function is None:
        raise OSError(0, f"no {name} on this system")
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
