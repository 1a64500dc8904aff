//! The built-in rules: what is plainly destructive, by program and option.
//!
//! Two tables. What the first names is refused; what the second names is asked about each time. The second is short
//! on purpose: a question about an everyday command teaches people to answer without reading.

use std::collections::HashMap;

use helve_core::Verdict;
use helve_shell::{Command, Joint, Position, Redirect, Span, Word};

use super::invoke::{self, Event, Program, Unseen};

/// One built-in rule.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The name by which the owner can list it.
    pub(crate) name: &'static str,
    /// Why, in a sentence without its full stop.
    pub(crate) reason: &'static str,
    verdict: Verdict,
    test: Test,
}

#[derive(Debug)]
enum Test {
    Program(fn(&Program<'_>) -> bool),
    /// A program, or a file that a redirection writes.
    ProgramOrWrite(fn(&Program<'_>) -> bool, fn(&str) -> bool),
    Command(fn(&Command) -> bool),
}

const fn deny(name: &'static str, reason: &'static str, test: Test) -> Rule {
    Rule { name, reason, verdict: Verdict::Deny, test }
}

const fn ask(name: &'static str, reason: &'static str, test: Test) -> Rule {
    Rule { name, reason, verdict: Verdict::Ask, test }
}

static RULES: &[Rule] = &[
    deny(
        "guard.rm-recursive",
        "rm with a recursive option deletes whole directory trees",
        Test::Program(rm_recursive),
    ),
    deny(
        "guard.windows-delete",
        "it deletes files or directories without asking",
        Test::Program(windows_delete),
    ),
    deny("guard.disk-format", "it formats or repartitions a disk", Test::Program(disk_format)),
    deny("guard.dd", "dd copies raw data and overwrites disks and files", Test::Program(dd)),
    deny("guard.device-write", "it writes to a disk device", Test::ProgramOrWrite(writes_device, is_disk)),
    deny("guard.power", "it stops or restarts the machine", Test::Program(power)),
    deny("guard.fork-bomb", "the function starts itself without end", Test::Command(fork_bomb)),
    ask(
        "guard.destructive.git-push-force",
        "a forced push overwrites what others see",
        Test::Program(git_push_force),
    ),
    ask(
        "guard.destructive.git-reset-hard",
        "git reset --hard throws away uncommitted work",
        Test::Program(git_reset_hard),
    ),
    ask(
        "guard.destructive.git-clean",
        "git clean deletes files that git does not know",
        Test::Program(git_clean),
    ),
    ask(
        "guard.destructive.chmod-open",
        "it lets everybody write whole directory trees",
        Test::Program(chmod_open),
    ),
    ask("guard.destructive.kill-all", "it ends every process that it may", Test::Program(kill_all)),
    ask("guard.destructive.find-delete", "find deletes everything that it finds", Test::Program(find_delete)),
    ask("guard.destructive.shred", "it destroys the contents of files for good", Test::Program(shred)),
    ask("guard.destructive.truncate", "it empties files", Test::Program(truncate)),
    ask(
        "guard.destructive.rsync-delete",
        "rsync deletes what the source does not have",
        Test::Program(rsync_delete),
    ),
];

/// A rule by its name.
pub(crate) fn by_name(name: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.name == name)
}

/// The names of the rules with this verdict.
pub(crate) fn names(verdict: Verdict) -> Vec<&'static str> {
    RULES.iter().filter(|rule| rule.verdict == verdict).map(|rule| rule.name).collect()
}

/// What the rules see in a command.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Every rule that it falls under, each with the first bytes that it is about.
    pub(super) found: Vec<(&'static str, Span)>,
    /// The first thing that a shell may run and no rule could look at.
    pub(super) unseen: Option<(Unseen, Span)>,
}

/// Holds the rules against everything that the command does.
pub(super) fn look(command: &Command) -> Seen {
    let mut found: Vec<(&'static str, Span)> = Vec::new();
    let unseen = invoke::each(command, &mut |event, span| {
        for rule in RULES {
            if rule.is_about(&event) && !found.iter().any(|(name, _)| *name == rule.name) {
                found.push((rule.name, span));
            }
        }
    });
    Seen { found, unseen }
}

impl Rule {
    fn is_about(&self, event: &Event<'_>) -> bool {
        match (&self.test, event) {
            (Test::Program(test) | Test::ProgramOrWrite(test, _), Event::Run(program)) => test(program),
            (Test::ProgramOrWrite(_, test), Event::Redirect(operator, target)) => {
                !matches!(operator, Redirect::Read | Redirect::HereString) && test(&target.text)
            }
            (Test::Command(test), Event::Read(command)) => test(command),
            _ => false,
        }
    }
}

fn rm_recursive(program: &Program<'_>) -> bool {
    matches!(program.name.as_str(), "rm" | "grm")
        && (program.short('r') || program.short('R') || program.long("--recursive", "--r"))
}

fn windows_delete(program: &Program<'_>) -> bool {
    let switch =
        |letters: &[&str]| program.texts().any(|text| letters.contains(&text.to_lowercase().as_str()));
    match program.name.as_str() {
        "del" | "erase" => switch(&["/f", "/q", "/s"]),
        "rmdir" | "rd" => switch(&["/s", "/q"]),
        _ => false,
    }
}

fn disk_format(program: &Program<'_>) -> bool {
    let name = program.name.as_str();
    match name {
        // Many projects have a script of this name.
        "format" | "format.com" => program.installed,
        "mkfs" | "mke2fs" | "mkswap" | "diskpart" | "diskpart.exe" | "wipefs" | "blkdiscard" => true,
        _ => name.starts_with("mkfs."),
    }
}

fn dd(program: &Program<'_>) -> bool {
    program.name == "dd" && program.texts().any(|text| text.starts_with("if="))
}

fn writes_device(program: &Program<'_>) -> bool {
    match program.name.as_str() {
        "dd" => program.texts().any(|text| text.strip_prefix("of=").is_some_and(is_disk)),
        "cp" | "mv" | "install" | "ln" => program.texts().last().is_some_and(is_disk),
        "tee" | "shred" | "truncate" => program.texts().any(is_disk),
        _ => false,
    }
}

fn is_disk(path: &str) -> bool {
    const DISKS: [&str; 9] = ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "dm-", "disk/", "mapper/"];
    path.strip_prefix("/dev/").is_some_and(|name| DISKS.iter().any(|disk| name.starts_with(disk)))
}

fn power(program: &Program<'_>) -> bool {
    let word = |words: &[&str]| program.texts().any(|text| words.contains(&text));
    match program.name.as_str() {
        "shutdown" | "reboot" | "poweroff" | "halt" => program.installed,
        "init" | "telinit" => program.installed && word(&["0", "6"]),
        "systemctl" => word(&["poweroff", "reboot", "halt", "kexec", "soft-reboot"]),
        _ => false,
    }
}

/// `f(){ f|f& };f` under any name: a body that starts the function at least twice, through a pipe or behind `&`.
fn fork_bomb(command: &Command) -> bool {
    let mut open: Vec<Option<&str>> = Vec::new();
    let mut defined = None;
    let mut bodies: HashMap<&str, usize> = HashMap::new();
    let mut counts: HashMap<&str, (usize, bool)> = HashMap::new();
    for (index, segment) in command.segments.iter().enumerate() {
        for word in &segment.words {
            match (word.position, word.text.as_str()) {
                (Position::FunctionName, name) => defined = Some(name),
                (Position::Keyword, "{") => {
                    let name = defined.take();
                    open.push(name);
                    if let Some(name) = name {
                        *bodies.entry(name).or_default() += 1;
                    }
                }
                (Position::Keyword, "}") => {
                    if let Some(depth) = open.pop().flatten().and_then(|name| bodies.get_mut(name)) {
                        *depth -= 1;
                    }
                }
                (Position::Name, name) if bodies.get(name).is_some_and(|depth| *depth > 0) => {
                    let next = command.segments.get(index + 1).map(|next| next.joint);
                    let detached = |joint| matches!(joint, Joint::Pipe | Joint::Background);
                    let count = counts.entry(name).or_default();
                    count.0 += 1;
                    count.1 |= detached(segment.joint) || next.is_some_and(detached);
                }
                _ => {}
            }
        }
    }
    counts.values().any(|(calls, detached)| *calls >= 2 && *detached)
}

/// The subcommand of git and its arguments, behind options such as `-C dir`.
fn git<'a>(program: &Program<'a>, subcommand: &str) -> Option<Program<'a>> {
    const VALUED: [&str; 5] = ["-C", "-c", "--git-dir", "--work-tree", "--namespace"];
    if program.name != "git" {
        return None;
    }
    let mut at = 0;
    while let Some(text) = program.args.get(at).map(|word: &&Word| word.text.as_str()) {
        at += match text {
            text if VALUED.contains(&text) => 2,
            text if text.starts_with('-') => 1,
            _ => break,
        };
    }
    let (first, args) = program.args.get(at..)?.split_first()?;
    (first.text == subcommand).then(|| Program { name: first.text.clone(), installed: true, args })
}

fn git_push_force(program: &Program<'_>) -> bool {
    git(program, "push").is_some_and(|push| {
        push.short('f')
            || push.long("--force-with-lease", "--forc")
            || push.long("--mirror", "--mir")
            || push.texts().any(|text| text.len() > 1 && text.starts_with('+'))
    })
}

fn git_reset_hard(program: &Program<'_>) -> bool {
    git(program, "reset").is_some_and(|reset| reset.long("--hard", "--h"))
}

fn git_clean(program: &Program<'_>) -> bool {
    git(program, "clean").is_some_and(|clean| {
        let dry = clean.short('n') || clean.long("--dry-run", "--d");
        !dry && (clean.short('f') || clean.long("--force", "--f"))
    })
}

fn chmod_open(program: &Program<'_>) -> bool {
    let everybody =
        |mode: &str| matches!(mode, "777" | "0777" | "a+rwx" | "a+w" | "o+w" | "a=rwx" | "ugo+rwx");
    program.name == "chmod"
        && (program.short('R') || program.long("--recursive", "--rec"))
        && program.texts().any(everybody)
}

/// `kill -9 -1`, `kill -- -1`; but `kill -1 123` only sends a hangup to one process.
fn kill_all(program: &Program<'_>) -> bool {
    program.name == "kill" && program.texts().skip(1).any(|text| text == "-1")
}

fn find_delete(program: &Program<'_>) -> bool {
    program.name == "find" && program.texts().any(|text| text == "-delete")
}

fn shred(program: &Program<'_>) -> bool {
    program.name == "shred" && program.texts().any(|text| !text.starts_with("--"))
}

fn truncate(program: &Program<'_>) -> bool {
    let mut texts = program.texts().peekable();
    program.name == "truncate"
        && std::iter::from_fn(|| texts.next().map(|text| (text, texts.peek().copied()))).any(
            |(text, next)| {
                matches!(text, "-s0" | "--size=0") || (matches!(text, "-s" | "--size") && next == Some("0"))
            },
        )
}

fn rsync_delete(program: &Program<'_>) -> bool {
    program.name == "rsync"
        && program.options().any(|option| option == "--del" || option.starts_with("--delete"))
}
