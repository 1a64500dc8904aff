//! A shell that stands ready, or is copied, is `bash -c` or `sh -c` byte for byte.
//!
//! Each text runs inside Helve's own sandbox, never outside: once as a text for the shell, which a warm one or a copy takes, and
//! once as a program `bash -c`, each time on a new copy of one small workspace. Where the two differ both are tried
//! again: what a new shell does not always give is random by itself and proves nothing.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use helve_core::{Exit, SandboxChoice, ShellBackend, ShellJob, Work};
use helve_sandbox::PoolSize;

use crate::kernel::kernel;

use crate::common::{
    LIMITS, User, backend, beside_others, block_on, play, prime, role, run, shared, shell, view, within,
    works,
};

/// Texts that a shell which does not start afresh would get wrong.
const TRICKY: &str = include_str!("../cases/warm.jsonl");

/// A copy is made without looking into its `/proc` from Linux 6.11 on.
fn can_be_the_same(text: &str) -> bool {
    !text.contains("was looked at") || kernel() >= (6, 11)
}

/// How many commands of the shared data are tried where nobody asks for all.
const SAMPLE: usize = 200;

fn compare_all(user: User) {
    let _beside = beside_others();
    let Some(mut role) = role("warm::role_compares", user) else { return };
    play(&mut role);
}

#[test]
fn warm_shell_is_a_new_shell() {
    compare_all(User::Same);
}

#[test]
fn warm_shell_is_a_new_shell_for_an_ordinary_user() {
    compare_all(User::Ordinary);
}

#[test]
#[ignore = "played as a process of its own by the tests above"]
fn role_compares() {
    if !works(&SandboxChoice::Native) {
        return;
    }
    let mut wrong = Vec::new();
    for shell in ["/bin/bash", "/bin/sh"] {
        for lane in lanes() {
            let texts = TRICKY.lines().map(|line| serde_json::from_str::<String>(line).unwrap());
            wrong.extend(compare(shell, lane, texts.filter(|text| can_be_the_same(text))));
        }
    }
    wrong.extend(compare("/bin/bash", Lane::Warm, commands().into_iter()));
    if lanes().contains(&Lane::Copied) {
        wrong.extend(compare("/bin/sh", Lane::Copied, commands().into_iter()));
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

/// The commands of the shared data: all of them, or some from everywhere in the file.
fn commands() -> Vec<String> {
    let Some(path) = shared("HELVE_SHARED_DATA", "commands.txt") else { return Vec::new() };
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let all: Vec<String> = text.lines().map(str::to_owned).collect();
    let every = if std::env::var_os("HELVE_TEST_SOAK").is_some() { 1 } else { all.len().div_ceil(SAMPLE) };
    all.into_iter().step_by(every.max(1)).collect()
}

#[derive(Clone, Debug, PartialEq)]
struct Given {
    exit: Exit,
    stdout: Vec<u8>,
    /// Sorted by lines: processes that run at the same time take turns as they like.
    stderr: Vec<u8>,
}

impl Given {
    /// Its exit, and from where on each stream is not the other's.
    fn shown(&self, other: &Given) -> String {
        let from = |own: &[u8], other: &[u8]| {
            let same = own.iter().zip(other).take_while(|(own, other)| own == other).count();
            let from = own[..same].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let shown: String = String::from_utf8_lossy(&own[from..]).chars().take(300).collect();
            format!("{from}: {shown:?}")
        };
        let (stdout, stderr) = (from(&self.stdout, &other.stdout), from(&self.stderr, &other.stderr));
        format!("{:?} stdout {stdout} stderr {stderr}", self.exit)
    }
}

/// Which shell takes a text.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lane {
    /// One that stands ready.
    Warm,
    /// A copy of one that is loaded.
    Copied,
}

/// Those that there are on this machine.
fn lanes() -> Vec<Lane> {
    if cfg!(target_arch = "x86_64") { vec![Lane::Warm, Lane::Copied] } else { vec![Lane::Warm] }
}

/// Waits until shells are copied: the room that is kept for a text shows it.
async fn load(backend: &dyn ShellBackend) {
    for _ in 0..50 {
        let done = run(backend, shell("cd /p*c/$$; cat cm*ine | wc -c")).await;
        if String::from_utf8_lossy(&done.stdout).trim().parse::<usize>().unwrap() > 4000 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no shell was copied");
}

/// The differences between such a shell and a new one over all texts.
fn compare(shell: &str, lane: Lane, texts: impl Iterator<Item = String>) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    let workspace = root.path().join("ws");
    std::fs::create_dir(&workspace).unwrap();
    let mut view = view(&workspace, Path::new("/home/user"));
    view.shell = shell.into();
    let name = shell.rsplit('/').next().unwrap_or(shell);
    let backend = match lane {
        Lane::Warm => backend(&SandboxChoice::Native, view, LIMITS),
        Lane::Copied => helve_sandbox::native(view, LIMITS, PoolSize::NONE).unwrap(),
    };
    let (mut same, mut random, mut wrong) = (0, 0, Vec::new());
    block_on(async {
        match lane {
            Lane::Warm => prime(&*backend).await,
            Lane::Copied => load(&*backend).await,
        }
        for text in texts {
            let words = vec![name.to_owned(), "-c".to_owned(), text.clone()];
            let first = once(&*backend, &workspace, Work::Program(words.clone())).await;
            let warm = once(&*backend, &workspace, Work::Shell(text.clone())).await;
            if warm == first {
                same += 1;
                continue;
            }
            match differs(&*backend, &workspace, &text, words, [first, warm]).await {
                None => random += 1,
                Some(difference) => wrong.push(format!("{shell} {text:?}\n{difference}")),
            }
        }
    });
    println!(
        "{shell} {lane:?}: {same} texts the same, {random} random by themselves, {} different",
        wrong.len()
    );
    wrong
}

/// Tries a text again whose first two runs differed. A difference is one where a new shell always gives the same, and a
/// warm one never that.
async fn differs(
    backend: &dyn ShellBackend,
    workspace: &Path,
    text: &str,
    words: Vec<String>,
    [new, warm]: [Given; 2],
) -> Option<String> {
    for _ in 0..5 {
        let new_again = once(backend, workspace, Work::Program(words.clone())).await;
        let warm_again = once(backend, workspace, Work::Shell(text.to_owned())).await;
        if new_again != new || warm_again == new {
            return None;
        }
    }
    Some(format!("  new:  {}\n  warm: {}", new.shown(&warm), warm.shown(&new)))
}

/// One run on a new copy of the workspace's content. The directory stays the same one.
async fn once(backend: &dyn ShellBackend, workspace: &Path, work: Work) -> Given {
    empty(workspace);
    std::fs::create_dir(workspace.join("folder")).unwrap();
    for (name, content) in [
        ("a.txt", "one\ntwo\nthree\n"),
        ("b.csv", "1,2\n3,4\n"),
        ("file with space", "x\n"),
        ("folder/c.txt", "deep\n"),
        ("script.sh", "echo script $0 $#\nreturn 3 2>/dev/null\nexit 4\n"),
    ] {
        std::fs::write(workspace.join(name), content).unwrap();
    }
    let job =
        ShellJob { work, stdin: Vec::new(), working_dir: None, timeout: within(Duration::from_secs(3)) };
    let done = run(backend, job).await;
    let exit = done.ended.unwrap().exit;
    let mut lines: Vec<&[u8]> = done.stderr.split_inclusive(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    Given { exit, stdout: done.stdout, stderr: lines.concat() }
}

/// Removes all that is in a directory, also where a command has taken away the right to.
fn empty(directory: &Path) {
    std::fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    for entry in directory.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_dir() {
            empty(&path);
            std::fs::remove_dir(&path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
    }
}
