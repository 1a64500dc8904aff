//! What Landlock alone refuses in the native sandbox: the mounts show `/proc` as the kernel has it, and commands of one
//! view that run at the same time are in one network namespace.

use std::process::Command;

use pretty_assertions::{assert_eq, assert_ne};

use super::*;

/// Writes to a file of the writer's own process, which lies on no read-only file system.
const WRITES: &str = "echo other > /proc/self/comm";

#[test]
fn only_what_the_view_says_is_written() {
    let outside = Command::new("sh").args(["-c", WRITES]).status().unwrap();
    assert!(outside.success(), "without a sandbox it can be written");
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        for pool in [PoolSize::NONE, PoolSize { warm: 0, parked: 2 }, PoolSize::default()] {
            let backend = native(view(folder.path()), pool);
            for round in 0..3 {
                // Only the second can be read by a warm shell: it does not name the place that would keep it out.
                let warm = "cd /p*c/self && echo other > comm";
                for job in [job(WRITES), job(warm), program(&["sh", "-c", WRITES])] {
                    let (ended, collected) = run(&*backend, job).await;
                    let said = String::from_utf8_lossy(&collected.stderr).into_owned();
                    assert!(said.contains("Permission denied"), "{pool:?} {round}: {said}");
                    assert_ne!(ended.map(|ended| ended.exit), Ok(Exit::Code(0)), "{pool:?} {round}");
                }
                pause().await;
            }
        }
    });
}

/// Empties what it reads from, and reads what it writes to, by their names.
const REOPENS: &str = r#"
import os, sys
def tried(act):
    try:
        return str(act())
    except OSError as error:
        return error.strerror
sys.stderr.write(tried(lambda: os.truncate("/proc/self/fd/0", 0)) + "\n")
sys.stderr.write(tried(lambda: os.open("/proc/self/fd/0", os.O_RDONLY | os.O_TRUNC)) + "\n")
sys.stderr.write(tried(lambda: open("/proc/self/fd/1").read()) + "\n")
"#;

/// A program on its caller's own streams gets files of the outside, of which it may do only what they were opened for.
#[test]
fn a_stream_that_is_a_file_outside_is_what_it_was_opened_for() {
    if !native_works() {
        return;
    }
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    open_to_all(folder.path());
    let [read, appended] = ["read", "appended"].map(|name| outside.path().join(name));
    for file in [&read, &appended] {
        std::fs::write(file, "kept").unwrap();
        // Whoever the command is: only the sandbox is in its way.
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o666)).unwrap();
    }
    open_to_all(outside.path());
    for pool in [PoolSize::NONE, PoolSize::default()] {
        let backend = native(view(folder.path()), pool);
        for round in 0..3 {
            let (mut from_stderr, stderr) = std::io::pipe().unwrap();
            let attached = Attach {
                words: ["python3", "-c", REOPENS].map(Into::into).to_vec(),
                working_dir: None,
                streams: [
                    File::open(&read).unwrap().into(),
                    File::options().append(true).open(&appended).unwrap().into(),
                    stderr.into(),
                ],
                terminal: false,
                timeout: Some(Duration::from_secs(20)),
                signals: tokio::sync::mpsc::unbounded_channel().1,
            };
            let ended = block_on(async {
                let ended = backend.attach(attached, Cancel::never()).await;
                pause().await;
                ended
            });
            let mut said = String::new();
            from_stderr.read_to_string(&mut said).unwrap();
            assert_eq!(ended.unwrap().exit, Exit::Code(0), "{pool:?} {round}: {said}");
            assert_eq!(said, "Permission denied\n".repeat(3), "{pool:?} {round}");
            assert_eq!(std::fs::read(&read).unwrap(), b"kept", "{pool:?} {round}");
        }
    }
}

/// Says when it listens, and that it reaches itself; ends when the other has tried.
const LISTENS: &str = r#"
import os, socket, time
listener = socket.socket(socket.AF_UNIX)
listener.bind("\0helve-test-of-landlock")
listener.listen()
socket.socket(socket.AF_UNIX).connect("\0helve-test-of-landlock")
open("listens", "w").close()
while not os.path.exists("tried"):
    time.sleep(0.01)
print("reached by itself")
"#;

const TRIES: &str = r#"
import os, socket, time
while not os.path.exists("listens"):
    time.sleep(0.01)
try:
    socket.socket(socket.AF_UNIX).connect("\0helve-test-of-landlock")
    print("reached")
except OSError as error:
    print(error.strerror)
open("tried", "w").close()
"#;

/// The version of Landlock that keeps abstract sockets apart.
const SCOPES: i64 = 6;

#[test]
fn an_abstract_socket_of_one_command_is_not_anothers() {
    let ask = "import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1))";
    let version = Command::new("python3").args(["-c", ask]).output().unwrap().stdout;
    let version: i64 = String::from_utf8(version).unwrap().trim().parse().unwrap();
    if !native_works() || version < SCOPES {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let backend = native(view(folder.path()), PoolSize::default());
    let texts = block_on(async {
        let calls = [LISTENS, TRIES].map(|script| {
            let (backend, job) = (Arc::clone(&backend), program(&["python3", "-c", script]));
            tokio::spawn(async move { output(&*backend, job).await })
        });
        let mut texts = Vec::new();
        for call in calls {
            texts.push(call.await.unwrap());
        }
        texts
    });
    assert_eq!(texts, ["reached by itself\n", "Operation not permitted\n"]);
}
