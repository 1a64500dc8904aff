"""Programs that make a witness's life hard, one by name. Each prints "done" and ends with 0."""
import ctypes, mmap, os, signal, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)
CONNECT, EXECVE, OPENAT, KEYCTL, SENDTO, MOUNT = 42, 59, 257, 250, 44, 165


def call(*arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return 0 if answer >= 0 else ctypes.get_errno()


def flip():
    """Another thread changes the path while it is read."""
    path = ctypes.create_string_buffer(b"/nothing/of/this/name", 4096)
    stop = False

    def change():
        while not stop:
            path.value = b"/etc/passwd"
            path.value = b"x" * 4000
            path.value = b"/nothing/of/this/name"

    thread = threading.Thread(target=change)
    thread.start()
    for _ in range(2000):
        call(EXECVE, path, 0, 0)
        call(OPENAT, -100, path, 0, 0)
    stop = True
    thread.join()


def pointers():
    """Pointers to nothing."""
    for address in [0, 1, 4095, 0xFFFF, 0x7FFF_FFFF_F000, -1, -4096, 0xFFFF_8000_0000_0000 - (1 << 64)]:
        for length in [0, 1, 2, 16, 128, 1 << 31, -1]:
            assert call(CONNECT, 0, address, length) != 0
            assert call(SENDTO, 0, 0, 0, 0, address, length) != 0
        assert call(EXECVE, address, 0, 0) != 0
        assert call(OPENAT, -100, address, 0, 0) != 0


def edge():
    """A path that ends, or does not end, where its page does."""
    size = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * size)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    assert libc.munmap(base + size, size) == 0
    for text in [b"/nothing\0", b"/nothing"]:
        ctypes.memmove(base + size - len(text), text, len(text))
        expected = 2 if text.endswith(b"\0") else 14
        assert call(EXECVE, base + size - len(text), 0, 0) == expected
        assert call(OPENAT, -100, base + size - len(text), 0, 0) == expected


def killed():
    """Processes that are killed while they ask."""
    for round in range(60):
        child = os.fork()
        if child == 0:
            while True:
                call(KEYCTL, 0, 0, 0)
        time.sleep(0.001 * (round % 5))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def stopped():
    """Processes that are stopped and go on while they ask, and signals that interrupt them."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGUSR1, lambda *_: None)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            assert call(KEYCTL, 0, 0, 0) in (38, 4)
        os._exit(0)
    time.sleep(0.2)
    for _ in range(100):
        for number in [signal.SIGSTOP, signal.SIGCONT, signal.SIGUSR1]:
            try:
                os.kill(child, number)
            except ProcessLookupError:
                pass
        time.sleep(0.001)
    os.kill(child, signal.SIGCONT)
    assert os.waitpid(child, 0)[1] == 0


def vfork():
    """Many that execute what is not there, from children that share memory."""
    import subprocess
    for _ in range(200):
        try:
            subprocess.run(["/nothing/of/this/name"])
        except FileNotFoundError:
            pass


def threads():
    """Threads that ask all at once."""
    def ask():
        for _ in range(500):
            assert call(MOUNT, 0, 0, 0, 0, 0) == 1

    all = [threading.Thread(target=ask) for _ in range(20)]
    [one.start() for one in all]
    [one.join() for one in all]


def many_paths():
    """More than any log holds."""
    for number in range(20000):
        call(EXECVE, ctypes.c_char_p(b"/nothing/%d" % number), 0, 0)


def many_calls():
    """One call a hundred thousand times."""
    for _ in range(100000):
        assert call(KEYCTL, 0, 0, 0) == 38


def bomb():
    """Processes without end, each of which asks."""
    while True:
        try:
            if os.fork() == 0:
                call(KEYCTL, 0, 0, 0)
        except OSError:
            call(KEYCTL, 0, 0, 0)


def follow_child():
    """Follows a child. Prints what came of it instead."""
    attach, detach = 16, 17
    child = os.fork()
    if child == 0:
        time.sleep(60)
    print(call(101, attach, child, 0, 0), flush=True)
    os.waitpid(child, 0)
    call(101, detach, child, 0, 0)
    os.kill(child, signal.SIGKILL)


def follow_first():
    """Tries the first process. Prints what came of it instead."""
    print(call(101, 16, 1, 0, 0), flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    if not sys.argv[1].startswith("follow"):
        print("done", flush=True)
    os._exit(0)
