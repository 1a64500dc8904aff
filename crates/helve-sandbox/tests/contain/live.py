# Says as JSON what a process inside a sandbox can find out about its own confinement. Arguments: the numbers of the
# caller's namespaces as JSON.
import ctypes, json, os, re, resource, socket, sys

outside = json.loads(sys.argv[1])


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def tried(act):
    try:
        act()
        return "done"
    except OSError as error:
        return os.strerror(error.errno)


def names(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def interfaces():
    try:
        return [name for _, name in socket.if_nameindex()]
    except OSError:
        return []


def mount_call():
    # fsconfig asks for a capability only after it has looked at its descriptor: a refusal is the filter's.
    library = ctypes.CDLL(None, use_errno=True)
    return os.strerror(ctypes.get_errno()) if library.syscall(431, -1, 0, 0, 0, 0) == -1 else "done"


status = dict(line.split(":\t", 1) for line in read("/proc/self/status").splitlines() if ":\t" in line)
mounts = [line.split() for line in read("/proc/self/mounts").splitlines()]
# One mount may cover another at the same place; the last is what is seen.
seen = {mount[1]: mount[3].split(",") for mount in mounts}
pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
print(json.dumps({
    "capabilities": sorted({status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}),
    "bounding_set": status["CapBnd"],
    # Where processes are shared the first one is the machine's.
    "capabilities_of_init": "shared"
    if link("/proc/self/ns/pid") == outside["pid"]
    else re.search(r"CapPrm:\t(\w+)", read("/proc/1/status")).group(1),
    "no_new_privs": status["NoNewPrivs"],
    "seccomp": status["Seccomp"],
    "mount_call": mount_call(),
    "shared_namespaces": sorted(name for name, number in outside.items() if link("/proc/self/ns/" + name) == number),
    # The last is this listing's own.
    "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
    "environ_of_init": read("/proc/1/environ"),
    # What may not be looked at belongs to the machine's root, who is nobody here. Nobody himself cannot tell that apart.
    "init_is_ours": os.getuid() != 65534 and os.stat("/proc/1/environ").st_uid == os.getuid(),
    "foreign_processes": len([pid for pid in pids if pid > 100]),
    "own_session": os.getsid(0) != 0,
    "groups": len(os.getgroups()),
    "mounts_with_setuid": sorted(path for path, options in seen.items() if "nosuid" not in options),
    "mounts_with_devices": sorted(
        path for path, options in seen.items() if "nodev" not in options and not path.startswith("/dev")
    ),
    "root": tried(lambda: os.mkdir("/new")),
    "system": tried(lambda: os.mkdir("/usr/new")),
    "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
    "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
    "interfaces": interfaces(),
    "mapped_users": sum(int(line.split()[2]) for line in read("/proc/self/uid_map").splitlines()),
    "dev": sorted(name for name in names("/dev") if not re.match(r"(fd|std(in|out|err)|core|console)$", name)),
}))
