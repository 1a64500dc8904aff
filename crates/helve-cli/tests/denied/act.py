"""One act by its name: ends with 0 if it was done, with 1 if it was refused, with 2 if this machine has no such thing."""

import ctypes
import errno
import os
import platform
import socket
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "x86_64": {"perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425, "add_key": 248, "bpf": 321},
    "aarch64": {"perf_event_open": 241, "userfaultfd": 282, "io_uring_setup": 425, "add_key": 217, "bpf": 280},
}


def number(name):
    try:
        return NUMBERS[platform.machine()][name]
    except KeyError:
        sys.exit(2)


def done(result):
    """The end for a call of the C library."""
    if result >= 0:
        sys.exit(0)
    print(os.strerror(ctypes.get_errno()), file=sys.stderr)
    sys.exit(1)


def ptrace():
    done(libc.ptrace(0, 0, 0, 0))


def io_uring():
    done(libc.syscall(number("io_uring_setup"), 4, ctypes.create_string_buffer(120)))


def perf():
    # A software clock of this process, user space alone.
    attr = bytearray(112)
    attr[0:4] = (1).to_bytes(4, "little")
    attr[4:8] = (112).to_bytes(4, "little")
    attr[40:48] = ((1 << 5) | (1 << 6)).to_bytes(8, "little")
    buffer = (ctypes.c_char * len(attr)).from_buffer(attr)
    done(libc.syscall(number("perf_event_open"), buffer, 0, -1, -1, 0))


def userfaultfd():
    done(libc.syscall(number("userfaultfd"), 1))


def mount():
    done(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))


def unshare():
    done(libc.unshare(0x10000000))


def add_key():
    done(libc.syscall(number("add_key"), b"user", b"helve-test", b"x", 1, -1))


def bpf():
    done(libc.syscall(number("bpf"), 0, ctypes.create_string_buffer(128), 128))


def chroot():
    done(libc.chroot(b"/tmp"))


def raw():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


def packet():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)


def alg():
    socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0)


def connect(address, port):
    with socket.create_connection((address, int(port)), timeout=5):
        pass


def send(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.sendto(b"x", (address, int(port)))


def unix(path):
    with socket.socket(socket.AF_UNIX) as out:
        out.connect(path)


def memory(mebibytes):
    held = bytearray(int(mebibytes) << 20)
    for at in range(0, len(held), 4096):
        held[at] = 1


def processes(count):
    children = []
    for _ in range(int(count)):
        child = os.fork()
        if child == 0:
            time.sleep(5)
            os._exit(0)
        children.append(child)
    # Who counts them looks now and then.
    time.sleep(1)
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)


def fill(path, mebibytes):
    names = [f"{path}.{number}" for number in range(int(mebibytes) // 8)]
    try:
        for name in names:
            with open(name, "wb") as out:
                out.write(os.urandom(8 << 20))
        # Who watches the disk looks now and then.
        time.sleep(1)
    finally:
        for name in names:
            if os.path.exists(name):
                os.unlink(name)


def listed(path):
    os.listdir(path)


def spin(seconds):
    until = time.process_time() + float(seconds)
    while time.process_time() < until:
        pass


if __name__ == "__main__":
    try:
        globals()[sys.argv[1]](*sys.argv[2:])
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(2 if error.errno in (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT) and "--host" in sys.argv else 1)
