//! The words of a run as the built-in rules ask for them: the name, and the arguments that are certain.

use std::borrow::Cow;

use helve_shell::analysis::{Arg, DepartureKind, Run};

/// A run by its name and its certain arguments.
pub(super) struct Argv<'a> {
    /// The name without its directory, in lower case; empty if it is not known.
    pub(super) name: Cow<'a, str>,
    args: &'a [Arg],
    /// Whether it is known to change something.
    pub(super) changes: bool,
}

impl<'a> Argv<'a> {
    pub(super) fn of(run: &'a Run) -> Self {
        Argv {
            name: lower(run.program.as_deref().unwrap_or_default()),
            args: run.argv.get(1..).unwrap_or_default(),
            changes: run.departures.iter().any(|departure| departure.kind == DepartureKind::Change),
        }
    }

    /// All arguments that are certain.
    pub(super) fn texts(&self) -> impl Iterator<Item = &'a str> {
        self.args.iter().filter_map(Arg::text)
    }

    /// Whether one of the arguments is one of these.
    pub(super) fn has(&self, words: &[&str]) -> bool {
        self.texts().any(|text| words.contains(&text))
    }

    /// The arguments before `--` that start with a dash.
    pub(super) fn options(&self) -> impl Iterator<Item = &'a str> {
        self.texts().take_while(|text| *text != "--").filter(|text| text.len() > 1 && text.starts_with('-'))
    }

    /// Whether a short option with this letter is given, alone or in a cluster such as `-vrf`.
    pub(super) fn short(&self, letter: char) -> bool {
        self.options().any(|option| !option.starts_with("--") && option.contains(letter))
    }

    /// Whether a long option is given, in full, shortened to no less than `shortest`, or with a value.
    pub(super) fn long(&self, full: &str, shortest: &str) -> bool {
        self.options().any(|option| {
            let name = option.split('=').next().unwrap_or_default();
            name.starts_with(shortest) && full.starts_with(name)
        })
    }

    /// Where the name of these arguments, such as a subcommand, stands among those of the run.
    pub(super) fn named_in(&self, run: &'a Run) -> Option<&'a Arg> {
        run.argv.get(run.argv.len().checked_sub(self.args.len() + 1)?)
    }

    /// The subcommand of git and its arguments, behind options such as `-C dir`.
    pub(super) fn git(&self) -> Option<Argv<'a>> {
        const VALUED: &[&str] = &[
            "-C",
            "-c",
            "--attr-source",
            "--config-env",
            "--git-dir",
            "--namespace",
            "--super-prefix",
            "--work-tree",
        ];
        if self.name != "git" {
            return None;
        }
        let mut texts = self.args.iter().enumerate().filter_map(|(at, arg)| Some((at, arg.text()?)));
        while let Some((at, text)) = texts.next() {
            if VALUED.contains(&text) {
                texts.next();
            } else if !text.starts_with('-') {
                let args = self.args.get(at + 1..).unwrap_or_default();
                return Some(Argv { name: text.into(), args, changes: self.changes });
            }
        }
        None
    }
}

/// A name in lower case; most are already.
pub(super) fn lower(name: &str) -> Cow<'_, str> {
    let plain = name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if plain { Cow::Borrowed(name) } else { Cow::Owned(name.to_lowercase()) }
}
