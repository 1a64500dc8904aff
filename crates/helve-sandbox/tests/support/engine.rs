//! An engine for containers of the test's own: Debian's Docker in namespaces of its own, with its own directories and socket.
//!
//! It touches no engine of the machine and writes no setting of the kernel: it runs in its own mount, network and pid
//! namespaces, with an empty `/run`, a copy of `/etc`, no bridge and no firewall. Everything that it started ends with it.
//! It takes root and the program `dockerd`; where one of them is missing there is no engine, and the test says so.
//!
//! Two images: `helve-test:tools` holds busybox, `helve-test:empty` no program at all.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An image with busybox.
#[allow(dead_code, reason = "each suite uses one of them")]
pub(crate) const TOOLS: &str = "helve-test:tools";
/// An image without any program, to be used with the machine's own `/usr`.
#[allow(dead_code, reason = "each suite uses one of them")]
pub(crate) const EMPTY: &str = "helve-test:empty";

/// How long an engine may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What runs as the first process of the engine's namespaces. The engine is its child, so that it can be killed alone.
const INIT: &str = r#"
    mount --make-rprivate / && mount -t tmpfs none /run &&
    cp -a /etc/. "$1/etc" && mount --bind "$1/etc" /etc &&
    echo '{}' > "$1/daemon.json" || exit 1
    trap : TERM
    while :; do
        dockerd --config-file "$1/daemon.json" --data-root "$1/data" --exec-root "$1/exec" --pidfile "$1/pid" \
            --host "unix://$1/docker.sock" --cgroup-parent "/$2" --bridge=none --iptables=false --ip6tables=false \
            --ip-forward=false --ip-masq=false --userland-proxy=false >> "$1/log" 2>&1
        rm -f "$1/pid"
        while [ ! -e "$1/again" ]; do sleep 0.05; done
        rm "$1/again"
    done
"#;

/// A running engine.
pub(crate) struct Engine {
    folder: tempfile::TempDir,
    groups: String,
    init: Child,
}

impl Engine {
    /// Starts one; none, with a word about it, where it cannot be had.
    pub(crate) fn start() -> Option<Engine> {
        if std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) != 0 {
            println!("skipped: an engine for containers takes root");
            return None;
        }
        let there =
            |program: &str| ["/usr/sbin", "/usr/bin"].iter().any(|at| Path::new(at).join(program).exists());
        for program in ["dockerd", "busybox", "unshare"] {
            if !there(program) {
                println!("skipped: {program} is not installed (scripts/setup --test)");
                return None;
            }
        }
        let busybox = std::fs::read("/usr/bin/busybox").unwrap_or_default();
        if busybox.is_empty() || busybox.windows(6).any(|bytes| bytes == b"/ld-li" || bytes == b"/ld-mu") {
            println!("skipped: /usr/bin/busybox is not one that is linked statically (busybox-static)");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("helve-engine-").tempdir().unwrap();
        for name in ["etc", "data", "exec"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let groups = folder.path().file_name().unwrap().to_str().unwrap().to_owned();
        let init = Command::new("setpriv")
            .args([
                "--pdeathsig",
                "KILL",
                "unshare",
                "--mount",
                "--net",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
            ])
            .args(["sh", "-c", INIT, "sh"])
            .arg(folder.path())
            .arg(&groups)
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut engine = Engine { folder, groups, init };
        if let Err(why) = engine.answers() {
            println!("skipped: no engine for containers can be started here: {why}");
            return None;
        }
        engine.import(TOOLS, &tools());
        engine.import(EMPTY, &[]);
        Some(engine)
    }

    /// Its socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("docker.sock")
    }

    fn answers(&mut self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            if matches!(self.ask("GET", "/_ping", b""), Ok((200, _))) {
                return Ok(());
            }
            if start.elapsed() > PATIENCE || self.init.try_wait().unwrap().is_some() {
                let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                return Err(log.lines().rev().take(3).collect::<Vec<_>>().join(" / "));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// One request.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &[u8]) -> std::io::Result<(u16, String)> {
        let mut connection = UnixStream::connect(self.socket())?;
        connection.set_read_timeout(Some(PATIENCE))?;
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: x\r\nContent-Type: application/x-tar\r\nContent-Length: {length}\r\n\r\n"
        );
        connection.write_all(head.as_bytes())?;
        connection.write_all(body)?;
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Ok((status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()))
    }

    /// Every container that there is, as the engine lists them.
    pub(crate) fn containers(&self) -> Vec<serde_json::Value> {
        let (status, body) = self.ask("GET", "/containers/json?all=true", b"").unwrap();
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Waits until there is no container.
    #[allow(dead_code, reason = "each suite uses some of it")]
    pub(crate) fn is_empty_soon(&self) {
        let start = Instant::now();
        loop {
            let left = self.containers();
            if left.is_empty() {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "containers are left: {left:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills the engine, and nothing else of what it started.
    #[allow(dead_code, reason = "each suite uses some of it")]
    pub(crate) fn kill(&self) {
        let daemon = self.processes().into_iter().find(|(_, name)| name == "dockerd").unwrap();
        assert!(Command::new("kill").args(["-KILL", &daemon.0.to_string()]).status().unwrap().success());
    }

    /// Starts the engine again that was killed.
    #[allow(dead_code, reason = "each suite uses some of it")]
    pub(crate) fn start_again(&mut self) {
        std::fs::write(self.folder.path().join("again"), "").unwrap();
        self.answers().unwrap();
    }

    /// The processes below the first one of the engine's namespace, by their numbers here and their names.
    pub(crate) fn processes(&self) -> Vec<(u32, String)> {
        let mut parents = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
            let (Some((before, after)), Some((_, name))) = (stat.rsplit_once(')'), stat.split_once('('))
            else {
                continue;
            };
            let name = name[..before.len() - stat.find('(').unwrap() - 1].to_owned();
            let parent: u32 = after.split_whitespace().nth(1).unwrap().parse().unwrap();
            parents.push((pid, parent, name));
        }
        let mut found = vec![self.init.id()];
        let mut list = Vec::new();
        let mut at = 0;
        while let Some(parent) = found.get(at).copied() {
            at += 1;
            for (pid, _, name) in parents.iter().filter(|(_, of, _)| *of == parent) {
                found.push(*pid);
                list.push((*pid, name.clone()));
            }
        }
        list
    }

    /// Makes an image of directories that nearly every program expects, links into `/usr`, and these files.
    fn import(&self, name: &str, files: &[(String, Entry)]) {
        let mut tar = Vec::new();
        for folder in ["usr", "usr/bin", "etc", "proc", "sys", "dev", "run", "tmp", "var", "var/tmp", "home"]
        {
            let mode = if folder.ends_with("tmp") { 0o1777 } else { 0o755 };
            entry(&mut tar, &format!("{folder}/"), b'5', "", &[], mode);
        }
        for (link, target) in
            [("bin", "usr/bin"), ("sbin", "usr/sbin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")]
        {
            entry(&mut tar, link, b'2', target, &[], 0o777);
        }
        entry(&mut tar, "etc/passwd", b'0', "", b"root:x:0:0:root:/root:/bin/sh\n", 0o644);
        for (path, what) in files {
            match what {
                Entry::File(bytes) => entry(&mut tar, path, b'0', "", bytes, 0o755),
                Entry::Link(target) => entry(&mut tar, path, b'2', target, &[], 0o777),
            }
        }
        tar.extend([0; 1024]);
        let (repository, tag) = name.split_once(':').unwrap();
        let path = format!("/images/create?fromSrc=-&repo={repository}&tag={tag}");
        let (status, said) = self.ask("POST", &path, &tar).unwrap();
        assert_eq!(status, 200, "{said}");
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The first process takes everything in its namespace with it.
        drop(self.init.kill());
        drop(self.init.wait());
        let start = Instant::now();
        let mut left = groups(&self.groups);
        while !left.is_empty() && start.elapsed() < Duration::from_secs(10) {
            // The deepest first.
            left.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
            left.retain(|path| std::fs::remove_dir(path).is_err() && path.exists());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The control groups of an engine, in whichever hierarchies there are.
fn groups(name: &str) -> Vec<PathBuf> {
    let top = Path::new("/sys/fs/cgroup");
    let hierarchies = std::fs::read_dir(top).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = hierarchies
        .chain([top.to_owned()])
        .map(|path| path.join(name))
        .filter(|path| path.is_dir())
        .collect();
    let mut at = 0;
    while let Some(path) = found.get(at).cloned() {
        at += 1;
        let below = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        found.extend(below.filter(|path| path.is_dir()));
    }
    found
}

/// What an image holds.
enum Entry {
    File(Vec<u8>),
    Link(&'static str),
}

fn tools() -> Vec<(String, Entry)> {
    let names = [
        "sh", "cat", "echo", "ls", "sleep", "id", "mkdir", "rm", "mv", "cp", "touch", "yes", "head", "tail",
        "wc", "env", "kill", "ps", "dd", "seq", "printf", "true", "false", "grep", "test", "setsid", "stat",
        "ln", "mount", "chmod", "pwd", "nc", "sort", "awk", "sed", "ping", "nohup",
    ];
    let mut files =
        vec![("usr/bin/busybox".to_owned(), Entry::File(std::fs::read("/usr/bin/busybox").unwrap()))];
    files.extend(names.map(|name| (format!("usr/bin/{name}"), Entry::Link("busybox"))));
    files
}

/// One entry of a tape archive.
fn entry(tar: &mut Vec<u8>, name: &str, kind: u8, target: &str, bytes: &[u8], mode: u32) {
    let mut head = [0_u8; 512];
    let mut put = |at: usize, text: &str| head[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, &format!("{mode:07o}"));
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", bytes.len()));
    put(136, "00000000000");
    put(148, "        ");
    put(157, target);
    put(257, "ustar");
    put(263, "00");
    head[156] = kind;
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
    head[154] = 0;
    tar.extend(head);
    tar.extend(bytes);
    tar.resize(tar.len().next_multiple_of(512), 0);
}
