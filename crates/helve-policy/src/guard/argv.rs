//! The words of a run as the built-in rules ask for them: the name, and the arguments that are certain.

use helve_shell::analysis::Run;

/// A run by its name and its certain arguments.
pub(super) struct Argv<'a> {
    /// The name without its directory, in lower case; empty if it is not known.
    pub(super) name: String,
    texts: Vec<&'a str>,
}

impl<'a> Argv<'a> {
    pub(super) fn of(run: &'a Run) -> Self {
        let name = run.program.as_deref().unwrap_or_default().to_lowercase();
        Argv { name, texts: run.argv.iter().skip(1).filter_map(|arg| arg.text()).collect() }
    }

    /// All arguments that are certain.
    pub(super) fn texts(&self) -> impl Iterator<Item = &'a str> {
        self.texts.iter().copied()
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

    /// The subcommand of git and its arguments, behind options such as `-C dir`.
    pub(super) fn git(&self) -> Option<Argv<'a>> {
        const VALUED: [&str; 5] = ["-C", "-c", "--git-dir", "--work-tree", "--namespace"];
        if self.name != "git" {
            return None;
        }
        let mut at = 0;
        while let Some(text) = self.texts.get(at) {
            at += match *text {
                text if VALUED.contains(&text) => 2,
                text if text.starts_with('-') => 1,
                _ => break,
            };
        }
        let (subcommand, rest) = self.texts.get(at..)?.split_first()?;
        Some(Argv { name: (*subcommand).to_owned(), texts: rest.to_vec() })
    }
}
