//! The analysis against the truth: what bash and the wrappers that it starts really execute, seen by `strace`, must be
//! among the programs that the analysis names, or the command must be opaque.
//!
//! Commands run inside bubblewrap only: no network, own processes, the system read-only, a throw-away workspace, as an
//! ordinary user, with limits and a deadline. Runs over the commands of this crate, and over a sample of those that
//! lie where `HELVE_SHARED_DATA` points. `HELVE_TEST_SOAK=1` takes the large sample.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests fail loudly")]

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use helve_shell::analysis::{Analysis, EffectKind, Setting};
use helve_shell::analyze;
use helve_shell::tree::Dialect;

/// Where the workspace lies inside the sandbox.
const WORKSPACE: &str = "/workspace";

/// Programs that start the command in their arguments; what these start counts as the command's own. What any other
/// program starts is its own matter (`zcat` is a script that runs `gzip`).
const STARTERS: &[&str] = &[
    "bash", "sh", "dash", "env", "xargs", "find", "nice", "nohup", "timeout", "setsid", "stdbuf", "time",
    "ionice", "flock", "watch", "script", "chroot",
];

/// The image of whatever a program started on its own account.
const FOREIGN: &str = "(foreign)";

const COMMANDS: &[&str] = &[
    "ls | head -1; cat words.txt | sort | uniq -c",
    "find . -name '*.txt' -exec wc -l {} + ; find . -type f | xargs -n1 basename",
    "c=date; $c +%Y; \"$c\" -u",
    "x='tr a b'; echo a | $x",
    "$(echo date)",
    "`printf 'da%s' te`",
    "if test -f words.txt; then grep -c a words.txt; else rm words.txt; fi",
    "for f in *.txt; do head -1 \"$f\"; done",
    "for p in date id; do $p; done",
    "while read -r l; do expr length \"$l\"; done < words.txt",
    "f() { uname -s; }; f | tee out.log",
    "sh -c 'id -u; exec uname'",
    "bash <<'E'\ndate\nid\nE",
    "echo 'id; date' | sh",
    "echo aWQ= | base64 -d | sh",
    "eval 'u''name -a'",
    "env -i A=1 nice -n 1 timeout 5 stdbuf -o0 id",
    "env -S 'nice id'",
    "cat <(sort words.txt) > >(wc -l)",
    "diff <(sort words.txt) <(sort -u words.txt)",
    "case x in x) id;; *) date;; esac",
    "{date,+%Y}",
    "$'\\x69d'",
    "i\\\nd",
    "command id; command -v date; builtin echo; exec id",
    "[[ -n $(id) ]] && (( 1 + $(date +%s) ))",
    "a=(id -u); \"${a[@]}\"",
    "trap 'date' EXIT; true",
    "echo x | while read y; do id; done",
    "! id; time date",
    "cat <<E\n$(id) `date`\nE",
    "y=${z:-$(id)}; echo ${y/$(date)/}",
    "coproc id; wait",
    "alias l=id\nl",
    "nohup sh -c 'date & id' ; setsid id",
    "find . -maxdepth 1 -name '*.txt' -execdir echo {} ';' -exec sh -c 'head -1 \"$1\"' _ {} \\;",
    "ls *.txt | xargs -I{} sh -c 'wc -l {}'",
    "function g { date; }; g; unset -f g",
    "until id; do date; done",
    "select x in a; do id; break; done <<< 1",
];

/// One traced run: which programs were executed by the shell and by the starters.
fn executed(place: &Path, command: &str) -> BTreeSet<String> {
    let workspace = place.join("workspace");
    let _ = std::fs::remove_dir_all(&workspace);
    std::fs::create_dir_all(workspace.join("src")).unwrap();
    std::fs::write(workspace.join("words.txt"), "a b\nc d\nb\n").unwrap();
    std::fs::write(workspace.join("file"), "one\ntwo\n").unwrap();
    std::fs::write(workspace.join("src/lib.rs"), "fn main() {}\n").unwrap();
    let log = place.join("log");
    let _ = std::fs::remove_file(&log);
    let mut line: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| line.extend(words.iter().map(|word| (*word).to_owned()));
    if is_root() {
        // The owner of what is written below must be the one who runs it.
        let chown = Command::new("chown").args(["-R", "65534:65534"]).arg(place).status().unwrap();
        assert!(chown.success());
        add(&["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    }
    add(&[
        "prlimit",
        "--nproc=400",
        "--fsize=8388608",
        "--core=0",
        "timeout",
        "-s",
        "KILL",
        "4",
        "strace",
        "-f",
    ]);
    add(&[
        "-qq",
        "--pidns-translation",
        "-e",
        "trace=execve,clone,clone3,fork,vfork",
        "-e",
        "signal=none",
        "-s",
        "300",
    ]);
    add(&["-o", log.to_str().unwrap(), "bwrap", "--unshare-all", "--die-with-parent", "--new-session"]);
    add(&["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/sbin", "/sbin"]);
    add(&[
        "--symlink",
        "usr/lib",
        "/lib",
        "--symlink",
        "usr/lib64",
        "/lib64",
        "--ro-bind",
        "/etc/passwd",
        "/etc/passwd",
    ]);
    add(&["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind"]);
    add(&[
        workspace.to_str().unwrap(),
        WORKSPACE,
        "--chdir",
        WORKSPACE,
        "--clearenv",
        "--setenv",
        "PATH",
        "/usr/bin:/bin",
    ]);
    add(&["--setenv", "HOME", "/tmp", "bash", "-c", command]);
    let mut process = Command::new(&line[0]);
    process.args(&line[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    process.status().unwrap();
    programs(&String::from_utf8_lossy(&std::fs::read(&log).unwrap_or_default()))
}

/// Reads the log of `strace -f`.
fn programs(log: &str) -> BTreeSet<String> {
    // The image that each process runs; a child starts with its parent's.
    let mut images: HashMap<&str, String> = HashMap::new();
    let mut parents: HashMap<&str, &str> = HashMap::new();
    let lines: Vec<(&str, &str)> = log.lines().filter_map(|line| line.split_once(' ')).collect();
    for (pid, event) in &lines {
        let born = event.rsplit_once(" in strace's PID NS */").map(|(before, _)| before);
        if let Some(child) = born.and_then(|before| before.rsplit_once("/* ")).map(|(_, child)| child) {
            parents.insert(child, pid);
        }
    }
    let mut found = BTreeSet::new();
    let mut inside = false;
    for (pid, event) in &lines {
        let path = event.trim_start().strip_prefix("execve(\"").and_then(|rest| rest.split('"').next());
        let Some(path) = path else { continue };
        if event.ends_with(')') || event.contains(") = -1") {
            continue;
        }
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        if name == "bwrap" || !inside {
            inside |= name == "bash";
            images.insert(pid, name);
            continue;
        }
        let mut ancestor = *pid;
        let image = loop {
            if let Some(image) = images.get(ancestor) {
                break image.clone();
            }
            match parents.get(ancestor) {
                Some(parent) => ancestor = parent,
                None => break String::new(),
            }
        };
        if !STARTERS.contains(&image.as_str()) {
            images.insert(pid, FOREIGN.to_owned());
            continue;
        }
        // The shell between these and the command that they are given is their own.
        if !(matches!(image.as_str(), "script" | "watch") && matches!(name.as_str(), "sh" | "bash" | "dash"))
        {
            found.insert(name.clone());
        }
        images.insert(pid, name);
    }
    found
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
}

fn analysis_of(command: &str) -> Analysis {
    let workspace = Path::new(WORKSPACE);
    let setting =
        Setting { dialect: Dialect::Bash, directory: workspace, workspace, home: Some(Path::new("/tmp")) };
    analyze(command, &setting)
}

/// What the analysis missed; none if it named all or said that it cannot tell.
fn missed(place: &Path, command: &str) -> Option<BTreeSet<String>> {
    let analysis = analysis_of(command);
    if !analysis.opaque.is_empty() {
        return None;
    }
    let named: BTreeSet<String> = analysis.runs.iter().filter_map(|run| run.program.clone()).collect();
    let missed: BTreeSet<String> = executed(place, command).difference(&named).cloned().collect();
    (!missed.is_empty()).then_some(missed)
}

/// Whether the tools are here; where `HELVE_TEST_PEERS` is 1 they must be.
fn can_trace() -> bool {
    let probe = tempfile::tempdir().unwrap();
    std::fs::set_permissions(probe.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // Processes of the same user that are just ending count against its limit.
    let works = (0..5).any(|_| {
        let works = executed(probe.path(), "id | cat").contains("id");
        if !works {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        works
    });
    let required = std::env::var_os("HELVE_TEST_PEERS").is_some_and(|value| value == "1");
    assert!(works || !required, "strace, bwrap, setpriv, prlimit or timeout does not work here");
    if !works {
        println!("skipped: strace, bwrap, setpriv, prlimit or timeout does not work here");
    }
    works
}

/// Traces all commands on two threads and gives those of which something was missed.
fn all_missed(commands: &[&str]) -> Vec<(String, BTreeSet<String>)> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let place = tempfile::tempdir().unwrap();
                std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
                    .unwrap();
                while let Some(command) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(missed) = missed(place.path(), command) {
                        found.lock().unwrap().push(((*command).to_owned(), missed));
                    }
                }
            });
        }
    });
    found.into_inner().unwrap()
}

#[test]
fn what_bash_executes_was_named() {
    if !can_trace() {
        return;
    }
    let opaque: Vec<&&str> =
        COMMANDS.iter().filter(|command| !analysis_of(command).opaque.is_empty()).collect();
    // Only what redefines names or reads unknown text may be; a parser that gives up on everything proves nothing.
    assert!(opaque.len() <= 3, "{opaque:#?}");
    let missed = all_missed(COMMANDS);
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn what_bash_executes_of_real_commands_was_named() {
    let Some(data) = std::env::var_os("HELVE_SHARED_DATA").map(PathBuf::from) else {
        println!("skipped: HELVE_SHARED_DATA is not set");
        return;
    };
    if !can_trace() {
        return;
    }
    let soak = std::env::var_os("HELVE_TEST_SOAK").is_some_and(|value| value == "1");
    let text = std::fs::read_to_string(data.join("commands.txt")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let sample = sample(&lines, if soak { 2000 } else { 150 });
    // A fork bomb says nothing about names and holds up the machine.
    let is_bomb = |command: &str| analysis_of(command).effects.iter().any(|e| e.kind == EffectKind::ForkBomb);
    let sample: Vec<&str> = sample.into_iter().filter(|command| !is_bomb(command)).collect();
    let opaque = sample.iter().filter(|command| !analysis_of(command).opaque.is_empty()).count();
    let missed = all_missed(&sample);
    println!(
        "{} commands, {opaque} opaque, {} with a program that was not named",
        sample.len(),
        missed.len()
    );
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(opaque * 4 <= sample.len(), "{opaque} of {} are opaque", sample.len());
}

/// Distinct lines, drawn with a fixed seed.
fn sample<'a>(lines: &[&'a str], count: usize) -> Vec<&'a str> {
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut taken = BTreeSet::new();
    while taken.len() < count.min(lines.len()) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        taken.insert(usize::try_from(state % lines.len() as u64).unwrap());
    }
    taken.into_iter().map(|index| lines[index]).collect()
}
