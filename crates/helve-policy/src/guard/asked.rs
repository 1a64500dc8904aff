//! The built-in rules that ask: what throws work away or reaches others, by program and option.
//!
//! Short on purpose: a question about an everyday command teaches people to answer without reading. A sandbox contains
//! all of it, so by default these are asked about only where a command runs bare.

use super::argv::Argv;

/// A built-in rule that asks.
pub(super) struct Asked {
    pub(super) name: &'static str,
    /// Why, in a sentence without its full stop.
    pub(super) reason: &'static str,
    is_about: fn(&Argv<'_>) -> bool,
}

const fn ask(name: &'static str, reason: &'static str, is_about: fn(&Argv<'_>) -> bool) -> Asked {
    Asked { name, reason, is_about }
}

/// All of them.
pub(super) static ASKED: &[Asked] = &[
    ask("guard.destructive.git-push-force", "a forced push overwrites what others see", git_push_force),
    ask("guard.destructive.git-reset-hard", "git reset --hard throws away uncommitted work", git_reset_hard),
    ask("guard.destructive.git-clean", "git clean deletes files that git does not know", git_clean),
    ask("guard.destructive.chmod-open", "it lets everybody write whole directory trees", chmod_open),
    ask("guard.destructive.kill-all", "it ends every process that it may", kill_all),
    ask("guard.destructive.find-delete", "find deletes everything that it finds", find_delete),
    ask("guard.destructive.shred", "it destroys the contents of files for good", shred),
    ask("guard.destructive.truncate", "it empties files", truncate),
    ask("guard.destructive.rsync-delete", "rsync deletes what the source does not have", rsync_delete),
];

/// The names of the rules that a run falls under.
pub(super) fn look(argv: &Argv<'_>) -> impl Iterator<Item = &'static str> {
    ASKED.iter().filter(|rule| (rule.is_about)(argv)).map(|rule| rule.name)
}

fn git_push_force(argv: &Argv<'_>) -> bool {
    argv.git().filter(|git| git.name == "push").is_some_and(|push| {
        push.short('f')
            || push.long("--force-with-lease", "--forc")
            || push.long("--mirror", "--mir")
            || push.texts().any(|text| text.len() > 1 && text.starts_with('+'))
    })
}

fn git_reset_hard(argv: &Argv<'_>) -> bool {
    argv.git().filter(|git| git.name == "reset").is_some_and(|reset| reset.long("--hard", "--h"))
}

/// What only says what it would delete changes nothing; without `--force` a setting may stand for it. Where arguments hide
/// what git does, its words count.
fn git_clean(argv: &Argv<'_>) -> bool {
    argv.git().filter(|git| git.name == "clean").is_some_and(|clean| {
        let dry = clean.short('n') || clean.long("--dry-run", "--d");
        clean.changes || !dry && (clean.short('f') || clean.long("--force", "--f"))
    })
}

fn chmod_open(argv: &Argv<'_>) -> bool {
    let recursive = argv.short('R') || argv.long("--recursive", "--rec");
    argv.name == "chmod" && recursive && argv.has(&["777", "0777", "a+rwx", "a+w", "o+w", "a=rwx", "ugo+rwx"])
}

/// `kill -9 -1`, `kill -- -1`; but `kill -1 123` only sends a hangup to one process.
fn kill_all(argv: &Argv<'_>) -> bool {
    argv.name == "kill" && argv.texts().skip(1).any(|text| text == "-1")
}

fn find_delete(argv: &Argv<'_>) -> bool {
    argv.name == "find" && argv.has(&["-delete"])
}

fn shred(argv: &Argv<'_>) -> bool {
    argv.name == "shred" && argv.texts().any(|text| !text.starts_with("--"))
}

fn truncate(argv: &Argv<'_>) -> bool {
    let sizes = argv.texts().zip(argv.texts().skip(1).chain([""]));
    argv.name == "truncate"
        && sizes.into_iter().any(|(text, next)| {
            matches!(text, "-s0" | "--size=0") || (matches!(text, "-s" | "--size") && next == "0")
        })
}

fn rsync_delete(argv: &Argv<'_>) -> bool {
    argv.name == "rsync" && argv.options().any(|option| option == "--del" || option.starts_with("--delete"))
}
