"""Runs a command in a world where the kernel refuses something: refuse.py WHAT COMMAND...

WHAT is user-namespaces (as some machines and containers do) or landlock (as a kernel without it, or one that did not
switch it on at boot, by `landlock:off`). It is a system call filter, so it holds for everything that the command starts
and needs no privilege.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

NUMBERS = {"x86_64": (56, 272, 435), "aarch64": (220, 97, 435)}
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE_NEWUSER = 0x10000000
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ANSWER = 0x7FFF0000, 0x00050000


def step(code, value, on_true=0, on_false=0):
    return struct.pack("HBBI", code, on_true, on_false, value)


def refused(number, answer):
    return [step(EQUAL, number, 0, 1), step(RETURN, ANSWER | answer)]


def refused_with_flag(number, answer):
    # Both ways answer, so that the number need not be loaded again.
    return [
        step(EQUAL, number, 0, 4),
        step(LOAD, 16),
        step(ANY_BIT, CLONE_NEWUSER, 0, 1),
        step(RETURN, ANSWER | answer),
        step(RETURN, ALLOW),
    ]


def program(what):
    machine = platform.machine()
    clone, unshare, clone3 = NUMBERS[machine]
    steps = [step(LOAD, 4), step(EQUAL, ARCHITECTURES[machine], 1, 0), step(RETURN, ALLOW), step(LOAD, 0)]
    if what == "user-namespaces":
        # What clone3 is asked lies in memory, where no filter looks: libc takes clone instead.
        steps += refused(clone3, errno.ENOSYS)
        steps += refused_with_flag(clone, errno.EPERM) + refused_with_flag(unshare, errno.EPERM)
    else:
        answer = errno.EOPNOTSUPP if what == "landlock:off" else errno.ENOSYS
        for number in (444, 445, 446):
            steps += refused(number, answer)
    return steps + [step(RETURN, ALLOW)]


def main():
    what, command = sys.argv[1], sys.argv[2:]
    code = b"".join(program(what))
    buffer = ctypes.create_string_buffer(code, len(code))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    fprog = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer)))
    # No new privileges, then the filter.
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.addressof(fprog), 0, 0):
        sys.exit(f"no filter can be installed: {os.strerror(ctypes.get_errno())}")
    os.execv(command[0], command)


main()
