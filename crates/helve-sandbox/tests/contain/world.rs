//! The surroundings of an attack: a workspace, and beside it what must stay out of reach. All of it made by the test.
//!
//! Everything outside the workspace may be read and written by everybody, so that what holds is the sandbox and never
//! the rights of a file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::basics::token;

/// One of the ends that wait outside for a connection.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Listener {
    Tcp,
    Udp,
    UnixPath,
    UnixAbstract,
}

/// A workspace and its outside.
pub(crate) struct World {
    _root: tempfile::TempDir,
    pub(crate) workspace: PathBuf,
    pub(crate) home: PathBuf,
    outside: PathBuf,
    canary: String,
    secret: String,
    victim: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    unix_path: UnixListener,
    unix_abstract: UnixListener,
    abstract_name: String,
    /// A file that this process holds open, and that every child inherits unless somebody closes it.
    _held: OwnedFd,
    shared_memory: Option<String>,
}

impl World {
    /// A new world. `secret` is in the environment of this process and of the victim.
    pub(crate) fn new(secret: &str, command: &str) -> World {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().canonicalize().unwrap();
        let open =
            |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        open(&base, 0o755);
        let (workspace, outside, home) = (base.join("ws"), base.join("out"), base.join("home"));
        for path in [&workspace, &outside, &home, &outside.join("victim")] {
            std::fs::create_dir(path).unwrap();
            open(path, 0o777);
        }
        let canary = token();
        let files = [
            (outside.join("secret.txt"), canary.as_str()),
            (outside.join("victim/file"), "kept"),
            (outside.join("held"), "held"),
            (home.join(".bashrc"), "# start\n"),
        ];
        for (path, content) in files {
            std::fs::write(&path, content).unwrap();
            open(&path, 0o666);
        }
        fill_workspace(&workspace);
        // A copy without the flag that closes it when a program starts.
        let held = rustix::io::dup(File::open(outside.join("held")).unwrap()).unwrap();
        let victim = Command::new("sleep")
            .arg("600")
            .env("HELVE_TEST_SECRET", secret)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let fixed = command.contains("host-abstract");
        let abstract_name = if fixed { "host-abstract".to_owned() } else { format!("abstract-{canary}") };
        let unix_path = UnixListener::bind(outside.join("socket")).unwrap();
        open(&outside.join("socket"), 0o777);
        let mut world = World {
            _root: root,
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            unix_path,
            unix_abstract: bind_abstract(&abstract_name),
            abstract_name,
            _held: held,
            shared_memory: command.contains("@SHM@").then(make_shared_memory),
            workspace,
            outside,
            home,
            canary,
            secret: secret.to_owned(),
            victim,
        };
        world.tcp.set_nonblocking(true).unwrap();
        world.udp.set_nonblocking(true).unwrap();
        world.unix_path.set_nonblocking(true).unwrap();
        world.unix_abstract.set_nonblocking(true).unwrap();
        // A process that has only just been started has no arguments yet.
        let start = Instant::now();
        while !world.victim_sleeps() {
            assert!(start.elapsed() < Duration::from_secs(10), "the victim does not sleep");
            std::thread::sleep(Duration::from_millis(1));
        }
        world
    }

    /// `text` with every placeholder replaced by what was made for it.
    pub(crate) fn fill(&self, text: &str) -> String {
        let path = |path: &Path| path.display().to_string();
        let pairs = [
            ("@WS@", path(&self.workspace)),
            ("@OUT@", path(&self.outside)),
            ("@MARK@", path(&self.outside.join("mark"))),
            ("@SOCK@", path(&self.outside.join("socket"))),
            ("@HOME@", path(&self.home)),
            ("@CANARY@", self.canary.clone()),
            ("@SECRET@", self.secret.clone()),
            ("@PID@", self.victim.id().to_string()),
            ("@LP@", self.tcp.local_addr().unwrap().port().to_string()),
            ("@UP@", self.udp.local_addr().unwrap().port().to_string()),
            ("@ABSTRACT@", self.abstract_name.clone()),
            ("@SHM@", self.shared_memory.clone().unwrap_or_default()),
        ];
        pairs.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// A path of a case: absolute, or relative to the workspace.
    pub(crate) fn path(&self, text: &str) -> PathBuf {
        self.workspace.join(self.fill(text))
    }

    /// Whether somebody connected, or sent something.
    pub(crate) fn was_reached(&self, listener: Listener) -> bool {
        let result = match listener {
            Listener::Tcp => self.tcp.accept().map(drop),
            Listener::Udp => self.udp.recv(&mut [0; 16]).map(drop),
            Listener::UnixPath => self.unix_path.accept().map(drop),
            Listener::UnixAbstract => self.unix_abstract.accept().map(drop),
        };
        match result {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                false
            }
        }
    }

    /// Whether the process outside still sleeps as it did.
    pub(crate) fn victim_sleeps(&mut self) -> bool {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.victim.id())).unwrap_or_default();
        let has = |line: &str| status.lines().any(|found| found == line);
        has("State:\tS (sleeping)") && has("TracerPid:\t0") && self.victim.try_wait().unwrap().is_none()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(id) = &self.shared_memory {
            drop(Command::new("ipcrm").args(["-m", id]).status());
        }
        drop(self.victim.kill());
        drop(self.victim.wait());
    }
}

/// This program again, to play a role in namespaces of its own: every capability, no network, nothing writable but
/// `scratch` and new file systems. As the real root, where the act needs it, or as a root that is one there only.
pub(crate) fn throw_away(scratch: &Path, real_root: bool, role: &str) -> Command {
    let mut world = Command::new("bwrap");
    world.args(["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent"]);
    if !real_root {
        world.args(["--unshare-user", "--uid", "0", "--gid", "0"]);
    }
    world.args(["--cap-add", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
    for private in ["/tmp", "/var/tmp", "/dev/shm", "/usr/src", "/mnt"] {
        world.args(["--tmpfs", private]);
    }
    world.arg("--bind").args([scratch, scratch]);
    let own = std::env::current_exe().unwrap();
    // This program may lie below a directory that is covered.
    world.arg("--ro-bind").args([&own, &own]).arg("--").arg(&own);
    world.args(["--exact", role, "--ignored", "--nocapture", "--test-threads=1"]);
    world.env("RUST_BACKTRACE", "0").env("TMPDIR", scratch);
    world
}

/// A repository with a hook and a configuration, a nested one, and some files.
fn fill_workspace(workspace: &Path) {
    let script = "
        git init -q . && git init -q sub && mkdir -p .git/hooks
        echo hello > README.md && echo data > sub/file && echo c2VjcmV0 > s
        printf '#!/bin/sh\\nexit 0\\n' > .git/hooks/post-checkout && chmod +x .git/hooks/post-checkout
        git add README.md && git commit -qm first && echo more >> README.md && git commit -qam second
        mkdir .vscode && echo '{}' > .vscode/settings.json
    ";
    let output = Command::new("bash")
        .args(["-ec", script])
        .current_dir(workspace)
        .env_clear()
        .envs([
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", "/nonexistent"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
        ])
        .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b"), ("GIT_COMMITTER_NAME", "a")])
        .env("GIT_COMMITTER_EMAIL", "a@b")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Waits for its turn where another process has the name.
fn bind_abstract(name: &str) -> UnixListener {
    let start = Instant::now();
    loop {
        match UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()) {
            Ok(listener) => return listener,
            Err(error)
                if error.kind() == ErrorKind::AddrInUse && start.elapsed() < Duration::from_secs(20) =>
            {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Nobody else looks for segments of shared memory meanwhile, whose keys are the machine's.
pub(crate) fn only_memory() -> UnixListener {
    bind_abstract("helve-test-shared-memory")
}

/// A segment of shared memory that everybody may use; its number.
fn make_shared_memory() -> String {
    let output = Command::new("ipcmk").args(["-M", "4096", "-p", "0666"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().rsplit(' ').next().unwrap().to_owned()
}

/// What a path looks like: kind and mode, time of change, content. Directories with everything in them.
pub(crate) type Snapshot = BTreeMap<PathBuf, (u32, i64, Vec<u8>)>;

pub(crate) fn snapshot(path: &Path) -> Snapshot {
    let mut all = Snapshot::new();
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        let Ok(found) = path.symlink_metadata() else { continue };
        let kind = found.file_type();
        let content = if kind.is_file() {
            let mut bytes = Vec::new();
            File::open(&path).unwrap().take(1 << 20).read_to_end(&mut bytes).unwrap();
            bytes
        } else if kind.is_symlink() {
            path.read_link().unwrap().into_os_string().into_encoded_bytes()
        } else {
            if kind.is_dir() {
                left.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
            }
            assert!(!kind.is_block_device() && !kind.is_char_device(), "{}", path.display());
            Vec::new()
        };
        // Files of processes are new every time that somebody looks.
        let time = if path.starts_with("/proc") { 0 } else { found.mtime_nsec() ^ found.mtime() };
        all.insert(path, (found.mode(), time, content));
    }
    all
}
