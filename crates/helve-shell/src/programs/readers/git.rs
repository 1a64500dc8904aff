//! `git`: options in front of the subcommand, the subcommand, and its own options.
//!
//! | module | what is in it |
//! |---|---|
//! | `config` | which settings name programs |
//! | `views` | subcommands that read, with all their options |
//! | `changes` | subcommands that change the repository, the work tree, or reach a network |
//! | `values` | which of their options have values |
//! | `remotes` | which other repositories they reach |
//! | `named` | which of their arguments may be files |
//! | `paths` | which paths of the work tree they change |
//! | `patterns` | which paths pathspecs match |

mod changes;
mod config;
mod named;
mod paths;
mod patterns;
mod remotes;
mod values;
mod views;

pub use config::is_plain_setting;
use values::{Given, Item as Behind, Name, is_short_for};

use super::MAX_JOINED;
use crate::analysis::{Arg, DepartureKind, More, OpaqueReason};
use crate::programs::options::{Grammar, Item, Order, Place, read};
use crate::programs::{Invocation, Meaning, On, hosts};

const GIT: Grammar = Grammar {
    flags: "vhpP",
    values: "Cc",
    names: &["exec-path? html-path man-path info-path paginate no-pager no-replace-objects no-lazy-fetch \
        no-optional-locks no-advice bare git-dir= work-tree= namespace= super-prefix= config-env= \
        attr-source= list-cmds= literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs"],
    order: Order::First,
    ..Grammar::NONE
};

/// A subcommand with its arguments, and where it works.
struct Call<'a> {
    invocation: &'a Invocation<'a>,
    name: &'a str,
    /// The index of the subcommand.
    at: usize,
    /// The directory that `-C` names; none for the working directory.
    directory: Option<String>,
    /// Whether the directory is known.
    located: bool,
    /// What stands behind a subcommand that changes something; empty for one that reads.
    behind: Vec<Behind<'a>>,
}

impl<'a> Call<'a> {
    fn args(&self) -> &'a [Arg] {
        self.invocation.args
    }

    /// The arguments behind the subcommand that are neither options nor their values.
    fn operands(&self) -> impl Iterator<Item = usize> + '_ {
        self.behind.iter().filter_map(|item| match item {
            Behind::Operand(at) => Some(*at),
            Behind::Option(_) | Behind::End(_) => None,
        })
    }

    /// The options behind the subcommand.
    fn options(&self) -> impl Iterator<Item = Given<'a>> + '_ {
        self.behind.iter().filter_map(|item| match item {
            Behind::Option(given) => Some(*given),
            Behind::Operand(_) | Behind::End(_) => None,
        })
    }

    /// Where `--` stands.
    fn end(&self) -> Option<usize> {
        self.behind.iter().find_map(|item| match item {
            Behind::End(at) => Some(*at),
            Behind::Option(_) | Behind::Operand(_) => None,
        })
    }

    /// Whether an option is given, by what may be short for its name.
    fn has_option(&self, name: &str) -> bool {
        self.options().any(|given| given.is_long(name))
    }

    /// The same by its letter, or by what may be short for its name.
    fn is_given(&self, letter: char, name: &str) -> bool {
        self.options().any(|given| given.is(letter, name))
    }

    /// Whether an option is in force that `--no-NAME` takes back, by what may be short for either: the last one counts. So
    /// many letters of its name are the least for git to know it.
    fn is_on(&self, letter: Option<char>, name: &str, least: usize) -> bool {
        let turned = self.options().filter_map(|given| match given.name {
            Name::Letter(given) => (Some(given) == letter).then_some(true),
            Name::Long(given) => match given.strip_prefix("no-") {
                Some(given) => is_short_for(given, name, 1).then_some(false),
                None => is_short_for(given, name, least).then_some(true),
            },
        });
        turned.last().unwrap_or(false)
    }

    fn text(&self, at: usize) -> Option<&str> {
        self.invocation.text(at)
    }

    /// A path of the repository or the work tree.
    fn path(&self, path: &str) -> On {
        self.path_at(path, self.at)
    }

    /// A path that an argument names, seen from where git works.
    fn path_at(&self, path: &str, at: usize) -> On {
        match (&self.directory, self.located) {
            (_, false) => On::Unknown(Some(at)),
            (Some(directory), true) if path == "." => On::Path(directory.clone(), Some(at)),
            (Some(directory), true) if !path.starts_with('/') => {
                On::Path(format!("{}/{path}", directory.trim_end_matches('/')), Some(at))
            }
            (_, true) => On::Path(path.to_owned(), Some(at)),
        }
    }

    /// Notes the file that an argument may be: a path, or one of a commit, as in `HEAD:path`.
    fn may_read(&self, meaning: &mut Meaning, at: usize) {
        self.may_hold(meaning, Place { option: at, arg: at, skip: 0 });
    }

    /// The same for the value of an option.
    fn may_hold(&self, meaning: &mut Meaning, place: Place) {
        match place.text(self.args()) {
            Some(text) => self.may_name(meaning, text, place.arg),
            None => meaning.perhaps.push(self.on(place)),
        }
    }

    /// The same for a text that an argument holds.
    fn may_name(&self, meaning: &mut Meaning, text: &str, at: usize) {
        let mut behind = paths::behind_commit(text).peekable();
        if behind.peek().is_none() {
            meaning.perhaps.push(On::Path(self.seen(text), Some(at)));
        }
        for (commit, path) in behind {
            if !commit.is_empty() {
                // It may be a file with a colon in its name as well.
                meaning.perhaps.push(self.path_at(text, at));
                // No commit has paths from the root on: this is a URL, or nothing.
                if !path.starts_with('/') {
                    self.may_be_in_commit(meaning, path, at);
                }
            } else if !paths::leaves_out(path) {
                self.may_be_in_commit(meaning, paths::of_index(path), at);
            }
        }
    }

    /// Notes a path of a commit: it is seen from the top of the work tree, unless it says that it is not.
    fn may_be_in_commit(&self, meaning: &mut Meaning, path: &str, at: usize) {
        meaning.perhaps.push(paths::no_word(On::Path(self.seen(path), Some(at))));
        if !path.starts_with("./") && !path.starts_with("../") {
            let above = paths::above(self, path);
            meaning.perhaps.extend(above.map(|path| On::Path(path, Some(at))));
        }
    }

    /// A path seen from where git works.
    fn seen(&self, path: &str) -> String {
        let directory = self.directory.as_deref().filter(|_| !path.starts_with('/'));
        directory.map_or_else(|| path.to_owned(), |directory| format!("{directory}/{path}"))
    }

    /// The path that an argument is, where that can be told.
    fn operand(&self, at: usize) -> On {
        self.on(Place { option: at, arg: at, skip: 0 })
    }

    /// The path that the value of an option is, where that can be told.
    fn on(&self, place: Place) -> On {
        match (self.located && self.directory.is_none(), place.text(self.args())) {
            (true, _) => place.on(self.args()),
            (false, Some(text)) if text.starts_with('/') => place.on(self.args()),
            (false, Some(text)) => self.path_at(text, place.arg),
            (false, None) => On::Unknown(Some(place.option)),
        }
    }
}

/// What `git` does.
pub(super) fn understand(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let mut directory: Option<String> = None;
    let mut located = true;
    let mut subcommand = None;
    if invocation.outside {
        // Another repository's settings name programs as well.
        meaning.departs(DepartureKind::Configuration, args.len());
    }
    for item in read(args, &GIT) {
        match item {
            Item::Value("C", place) => {
                match place.text(args) {
                    Some(text) => enter(&mut directory, text),
                    None => located = false,
                }
                if invocation.leads_outside(place.text(args)) {
                    meaning.departs(DepartureKind::Configuration, place.option);
                }
            }
            Item::Value("c", place) => config::note(&mut meaning, args, place),
            Item::Value("config-env", place) => meaning.departs(DepartureKind::Configuration, place.option),
            Item::Value("exec-path", place) => {
                meaning.departs(DepartureKind::Program, place.option);
                meaning.hides(OpaqueReason::UnknownProgram, Some(place.option));
            }
            Item::Value("git-dir" | "attr-source", place) => {
                meaning.departs(DepartureKind::Configuration, place.option);
                meaning.perhaps.push(place.on(args));
            }
            Item::Value("work-tree", place) => {
                located = false;
                meaning.reads(place.on(args));
            }
            Item::Unknown(at) => meaning.departs(DepartureKind::UnknownOption, at),
            Item::Stray(at) => meaning.departs(DepartureKind::Program, at),
            Item::Open(at) => meaning.departs(DepartureKind::PossibleOption, at),
            Item::Maybe(at) => {
                meaning.departs(DepartureKind::PossibleOption, at);
                meaning.hides(OpaqueReason::UnknownProgram, Some(at));
                return meaning;
            }
            Item::Operand(at) => {
                subcommand = Some(at);
                break;
            }
            _ => {}
        }
    }
    let Some(at) = subcommand else {
        if invocation.more != More::Nothing {
            meaning.departs(DepartureKind::PossibleOption, args.len());
            meaning.hides(OpaqueReason::UnknownProgram, None);
        }
        return meaning;
    };
    let Some(name) = invocation.text(at) else {
        meaning.departs(DepartureKind::Program, at);
        meaning.hides(OpaqueReason::UnknownProgram, Some(at));
        return meaning;
    };
    let joined = directory.as_ref().map_or(0, |directory| directory.len().saturating_mul(args.len() - at));
    if joined > MAX_JOINED {
        meaning.hides(OpaqueReason::TooComplex, Some(at));
        return meaning;
    }
    let mut call = Call { invocation, name, at, directory, located, behind: Vec::new() };
    if views::note(&call, &mut meaning) {
        return meaning.whole();
    }
    call.behind = values::read(&call);
    if changes::note(&call, &mut meaning) {
        return meaning;
    }
    named::note_unknown(&call, &mut meaning);
    // An alias, or a program called git-NAME.
    meaning.departs(DepartureKind::Program, at);
    meaning.hides(OpaqueReason::UnknownProgram, Some(at));
    meaning
}

/// Goes into a directory, which is seen from the one before it, as for `-C a -C b`.
fn enter(directory: &mut Option<String>, path: &str) {
    match directory {
        Some(directory) if !path.starts_with('/') => {
            directory.push('/');
            directory.push_str(path);
        }
        _ => *directory = Some(path.to_owned()),
    }
}

/// Notes an option that holds a command for the other end or this one.
fn note_command(call: &Call<'_>, meaning: &mut Meaning, place: Place) {
    meaning.runs_option_text(call.args(), place);
}
