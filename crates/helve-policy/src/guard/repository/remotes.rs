//! Whether git starts programs of another repository on this machine.
//!
//! A push starts the hooks of the repository that takes it, and `archive --remote` the programs that the settings of the
//! other name for archives. A repository that only gives (`fetch`, `pull`, `clone`, `ls-remote`) starts nothing of its own:
//! git-upload-pack obeys a setting that names a program only from the user's files, and runs no hook. So it counts where
//! a push leads, and whatever is not certainly another machine may be a path.

use std::collections::HashSet;
use std::path::Path;

use helve_shell::analysis::Arg;

use super::hooks;

/// The other repositories that the settings of one name.
#[derive(Default)]
pub(super) struct Remotes {
    /// The remotes that have a URL.
    named: HashSet<String>,
    /// What the branches take for their remote, until all settings are known.
    of_branches: HashSet<String>,
    /// Whether one of those may be on this machine.
    branch_is_near: bool,
    /// Whether a remote may be on this machine.
    near: bool,
}

/// Options of `push` that take no further argument and do not change where it leads.
const FLAGS: &[&str] = &[
    "--all",
    "--atomic",
    "--branches",
    "--delete",
    "--dry-run",
    "--follow-tags",
    "--force",
    "--force-if-includes",
    "--force-with-lease",
    "--mirror",
    "--no-follow-tags",
    "--no-verify",
    "--porcelain",
    "--progress",
    "--prune",
    "--quiet",
    "--set-upstream",
    "--tags",
    "--verbose",
];

/// What a push says of where it leads.
enum Destination<'a> {
    /// Nothing, so that the settings decide.
    Usual,
    Named(&'a str),
    Unknown,
}

impl Remotes {
    /// Takes over a setting below a name, if it says where another repository is.
    pub(super) fn note(&mut self, section: &str, name: &str, setting: &str, value: &str) {
        // Quotes, escapes and comments are not read, so that such a value counts as none.
        let value = if value.contains(['"', '\\', '#', ';']) { "" } else { value };
        match (section, setting) {
            ("remote", "url") if is_far(value) => {
                self.named.insert(name.to_owned());
            }
            ("remote", "pushurl") if is_far(value) => {}
            ("remote", "url" | "pushurl") => self.near = true,
            ("branch", "remote" | "pushremote") => {
                self.of_branches.insert(value.to_owned());
            }
            _ => {}
        }
    }

    /// Works out what the branches' remotes come to, once all settings are taken over: many runs may ask.
    pub(super) fn settle(&mut self) {
        let of_branches = std::mem::take(&mut self.of_branches);
        self.branch_is_near |= !of_branches.iter().all(|name| self.is_certain(name));
    }

    /// Takes over the files beside the settings in which remotes may stand, too.
    pub(super) fn look(&mut self, git: &Path) {
        let holds_some = |name: &str| match git.join(name).read_dir() {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        };
        self.near |= ["remotes", "branches"].into_iter().any(holds_some);
    }

    /// Whether a subcommand starts programs of no other repository on this machine. Without `args` they are not known.
    pub(super) fn are_far(&self, subcommand: Option<&str>, args: Option<&[Arg]>) -> bool {
        match subcommand {
            Some("push") => !self.near && self.takes(&destination(args)),
            // It takes no name of a remote, and leaves URLs of the web to others.
            Some("send-pack") => false,
            Some("archive") => {
                args.is_some_and(|args| args.iter().all(|arg| arg.text().is_some_and(is_unasked)))
            }
            Some(name) if hooks::is_known(name) => true,
            _ => !self.near && self.takes(&Destination::Usual),
        }
    }

    fn takes(&self, destination: &Destination<'_>) -> bool {
        match destination {
            Destination::Usual => !self.branch_is_near,
            Destination::Named(name) => self.is_certain(name),
            Destination::Unknown => false,
        }
    }

    /// Whether a remote or a URL certainly leads to another machine.
    fn is_certain(&self, name: &str) -> bool {
        self.named.contains(name) || is_far(name)
    }
}

/// Where a push leads by its arguments.
fn destination(args: Option<&[Arg]>) -> Destination<'_> {
    let Some(args) = args else { return Destination::Unknown };
    let mut named = None;
    let mut options = true;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        // One that may become none shifts those behind it.
        let Some(text) = arg.text() else {
            if named.is_some() && !(options && arg.may_be_option()) {
                continue;
            }
            return Destination::Unknown;
        };
        if !options || !text.starts_with('-') {
            named.get_or_insert(text);
        } else if text == "--" {
            options = false;
        } else if matches!(text, "-o" | "--push-option") {
            if args.next().is_some_and(|value| value.text().is_none()) {
                return Destination::Unknown;
            }
        } else if !is_flag(text) {
            return Destination::Unknown;
        }
    }
    named.map_or(Destination::Usual, Destination::Named)
}

fn is_flag(option: &str) -> bool {
    let short =
        |letters: &str| !letters.is_empty() && letters.chars().all(|letter| "vqnfud46".contains(letter));
    FLAGS.contains(&option)
        || option.starts_with("--force-with-lease=")
        || option.starts_with("--push-option=")
        || option.strip_prefix('-').is_some_and(short)
}

/// Whether an argument of `archive` asks no repository on this machine for the archive.
fn is_unasked(text: &str) -> bool {
    !text.starts_with("--r") || text.strip_prefix("--remote=").is_some_and(is_far)
}

/// Whether git reaches a repository over a network: a URL of one of its own transports, or `host:path`.
fn is_far(url: &str) -> bool {
    const SCHEMES: [&str; 6] = ["https", "http", "ssh", "git", "git+ssh", "ssh+git"];
    if let Some((scheme, rest)) = url.split_once("://") {
        return SCHEMES.contains(&scheme) && !rest.is_empty();
    }
    // Another name in front of two colons is that of a program.
    url.split_once(':').is_some_and(|(host, path)| {
        !host.is_empty() && !host.starts_with('-') && !host.contains('/') && !path.starts_with(':')
    })
}

#[cfg(test)]
mod tests {
    use helve_shell::Span;

    use super::*;
    use crate::guard::repository::settings;

    fn args(words: &str) -> Vec<Arg> {
        words.split_whitespace().map(|word| Arg::known(word, Span { start: 0, end: 0 })).collect()
    }

    fn far(config: &str, command: &str) -> bool {
        let (subcommand, words) = command.split_once(' ').unwrap_or((command, ""));
        settings::read(config).unwrap().are_far(Some(subcommand), Some(&args(words)))
    }

    #[test]
    fn a_url_is_far_only_if_git_certainly_takes_it_for_one() {
        for url in [
            "https://example.org/x",
            "ssh://git@example.org:22/x",
            "git://example.org/x",
            "git@example.org:a/b.git",
            "host:/srv/x",
        ] {
            assert!(is_far(url), "{url}");
        }
        for url in [
            "",
            ".",
            "..",
            "./x",
            "/x",
            "x",
            "x/y",
            "~/x",
            "file:///x",
            "FILE:///x",
            "HTTPS://x/y",
            "./a:b",
            "a/b:c",
            ":x",
            "-o:x",
            "ext::sh -c x",
            "x::y",
            "x://y",
            "https://",
        ] {
            assert!(!is_far(url), "{url}");
        }
    }

    #[test]
    fn a_push_starts_nothing_here_if_it_certainly_leads_away() {
        let usual = "[remote \"origin\"]\n\turl = https://example.org/x\n[remote \"up\"]\n\turl = host:x\n\
             \tpushurl = git@host:x\n[branch \"main\"]\n\tremote = origin\n";
        for command in [
            "push",
            "push origin",
            "push -u origin HEAD",
            "push --force-with-lease=main:abc -fq up main:x",
            "push origin --delete x",
            "push -o ci.skip origin",
            "push https://example.org/y HEAD",
            "push -- origin ./x",
            "fetch ./lib.git",
            "pull . x",
            "clone ./lib.git",
            "archive HEAD",
            "archive --remote=host:x HEAD",
            "co x",
        ] {
            assert!(far(usual, command), "{command}");
        }
        for command in [
            "push . HEAD:refs/heads/o",
            "push ./lib.git",
            "push file:///lib.git",
            "push lib",
            "push -- ../x",
            "push --repo=../x",
            "push --repo ../x",
            "push --rep ../x",
            "push -o origin ../x",
            "send-pack host:x",
            "archive --remote=. HEAD",
            "archive --remote . HEAD",
            "archive --rem=. HEAD",
            "archive --remote=origin HEAD",
        ] {
            assert!(!far(usual, command), "{command}");
        }
        for near in [
            "[remote \"origin\"] url = ./lib.git",
            "[remote \"origin\"] pushurl = /lib.git",
            "[remote \"lib\"] url = file:///lib.git",
            "[remote \"lib\"] url = \"./a\" # host:x",
            "[remote \"lib\"] url = \\x2e:x",
            "[remote \"lib\"] url",
            "[remote \"lib\"] url =",
        ] {
            let config = format!("{usual}{near}\n");
            for command in ["push", "push origin", "push lib", "co x"] {
                assert!(!far(&config, command), "{near}: {command}");
            }
            assert!(far(&config, "fetch origin"), "{near}");
        }
        // Without a name it is the branch's remote that counts.
        for remote in [".", "lib", "lib # a:b"] {
            let tracks = format!("{usual}[branch \"x\"]\n\tremote = {remote}\n");
            assert!(far(&tracks, "push origin") && !far(&tracks, "push"), "{remote}");
        }
        // Nothing is known of more arguments that come later.
        let remotes = settings::read(usual).unwrap();
        assert!(!remotes.are_far(Some("push"), None) && remotes.are_far(Some("fetch"), None));
        for (before, behind) in [("", "origin"), ("origin", ""), ("-o", "origin ./x")] {
            let unknown = [Arg::unknown(Span { start: 0, end: 0 })];
            let words = [args(before).as_slice(), unknown.as_slice(), args(behind).as_slice()].concat();
            assert!(!remotes.are_far(Some("push"), Some(&words)), "{before} $x {behind}");
        }
    }

    #[test]
    fn files_beside_the_settings_name_remotes_too() {
        let git = tempfile::tempdir().unwrap();
        let far = || {
            let mut remotes = Remotes::default();
            remotes.look(git.path());
            remotes.are_far(Some("push"), Some(&[]))
        };
        assert!(far());
        std::fs::create_dir(git.path().join("branches")).unwrap();
        assert!(far());
        std::fs::write(git.path().join("branches/origin"), "./lib.git").unwrap();
        assert!(!far());
    }
}
