//! `git`: options in front of the subcommand, the subcommand, and its own options.
//!
//! | module | what is in it |
//! |---|---|
//! | `config` | which settings name programs |
//! | `views` | subcommands that read, with all their options |
//! | `changes` | subcommands that change the repository, the work tree, or reach a network |
//! | `named` | which of their arguments may be files |
//! | `paths` | which paths of the work tree they change |

mod changes;
mod config;
mod named;
mod paths;
mod views;

use super::MAX_JOINED;
use crate::analysis::{Arg, DepartureKind, EffectKind, More, OpaqueReason};
use crate::programs::options::{Grammar, Item, Order, Place, read};
use crate::programs::{Invocation, Meaning, On, hosts};
use crate::spelling;

const GIT: Grammar = Grammar {
    flags: "vhpP",
    values: "Cc",
    names: &["exec-path? html-path man-path info-path paginate no-pager no-replace-objects no-lazy-fetch \
        no-optional-locks no-advice bare git-dir= work-tree= namespace= super-prefix= config-env= \
        attr-source= list-cmds= literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs"],
    order: Order::First,
    ..Grammar::NONE
};

/// Where ssh connects to.
const SSH_PORT: u16 = 22;

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
}

impl Call<'_> {
    fn args(&self) -> &[Arg] {
        self.invocation.args
    }

    fn text(&self, at: usize) -> Option<&str> {
        self.invocation.text(at)
    }

    /// A path of the repository or the work tree.
    fn path(&self, path: &str) -> On {
        match (&self.directory, self.located) {
            (_, false) => On::Unknown(Some(self.at)),
            (None, true) => On::Path(path.to_owned(), Some(self.at)),
            (Some(directory), true) if path == "." => On::Path(directory.clone(), Some(self.at)),
            (Some(directory), true) => {
                On::Path(format!("{}/{path}", directory.trim_end_matches('/')), Some(self.at))
            }
        }
    }

    /// Notes the file that an argument may be: a path, or one of a commit, as in `HEAD:path`.
    fn may_read(&self, meaning: &mut Meaning, at: usize) {
        match self.text(at) {
            Some(text) => self.may_name(meaning, text, at),
            None => meaning.perhaps.push(self.operand(at)),
        }
    }

    /// The same for a text that an argument holds.
    fn may_name(&self, meaning: &mut Meaning, text: &str, at: usize) {
        let (path, of_commit) = match text.split_once(':') {
            Some(("", magic)) if leaves_out(magic) => return,
            Some(("", magic)) => (pathspec(magic), true),
            Some((_, path)) => (path, true),
            None => (text, false),
        };
        let directory = self.directory.as_deref().filter(|_| !path.starts_with('/'));
        let seen = directory.map_or_else(|| path.to_owned(), |directory| format!("{directory}/{path}"));
        meaning.perhaps.push(On::Path(seen, Some(at)));
        if of_commit && !path.starts_with("./") && !path.starts_with("../") {
            // A path of a commit is seen from the top of the work tree, unless it says that it is not.
            let top = self.invocation.workspace.join(path.trim_start_matches('/'));
            meaning.perhaps.push(On::Path(top.to_string_lossy().into_owned(), Some(at)));
        }
    }

    /// The path that an argument is, where that can be told.
    fn operand(&self, at: usize) -> On {
        match (self.located && self.directory.is_none(), self.text(at)) {
            (true, _) => On::Arg(at),
            (false, Some(text)) if text.starts_with('/') => On::Arg(at),
            (false, Some(text)) => self.path(text),
            (false, None) => On::Unknown(Some(at)),
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
    let call = Call { invocation, name, at, directory, located };
    if views::note(&call, &mut meaning) {
        return meaning.whole();
    }
    if changes::note(&call, &mut meaning) {
        return meaning;
    }
    // An alias, or a program called git-NAME.
    meaning.departs(DepartureKind::Program, at);
    meaning.hides(OpaqueReason::UnknownProgram, Some(at));
    meaning
}

/// The path behind the mark of a pathspec or of the index: `:/path`, `:(top)path`, `:0:path`.
fn pathspec(magic: &str) -> &str {
    let named = magic.strip_prefix('(').and_then(|magic| magic.split_once(')')).map(|(_, path)| path);
    named
        .unwrap_or_else(|| magic.trim_start_matches(|ch: char| ch == '/' || ch == ':' || ch.is_ascii_digit()))
}

/// Whether a pathspec says which paths are not meant: `:!path`, `:^path`, `:(exclude)path`.
fn leaves_out(magic: &str) -> bool {
    match magic.strip_prefix('(') {
        Some(words) => {
            words.split_once(')').is_some_and(|(words, _)| words.split(',').any(|word| word == "exclude"))
        }
        None => magic.trim_start_matches('/').starts_with(['!', '^']),
    }
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

/// Notes that a remote is reached: a URL, a path, or the name of a remote.
fn note_remote(call: &Call<'_>, meaning: &mut Meaning, at: Option<usize>) {
    let Some(at) = at else {
        meaning.departs(DepartureKind::Network, call.at);
        meaning.does(EffectKind::Connect, On::Unknown(Some(call.at)));
        return;
    };
    let Some(text) = call.text(at) else {
        meaning.departs(DepartureKind::Network, at);
        meaning.departs(DepartureKind::Program, at);
        meaning.does(EffectKind::Connect, On::Unknown(Some(at)));
        return;
    };
    if let Some((transport, rest)) = text.split_once("::")
        && !transport.is_empty()
        && transport.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte))
    {
        // `ext::` runs its text, any other name runs git-remote-NAME.
        meaning.departs(DepartureKind::Program, at);
        if transport == "ext" {
            let command = rest.replace("% ", "\u{1}").replace("%%", "%");
            let words =
                command.split(' ').map(|word| Arg::known(word.replace('\u{1}', " "), call.args()[at].span));
            meaning.runs_detached(words.collect(), More::Nothing);
        } else {
            meaning.hides(OpaqueReason::UnknownProgram, Some(at));
        }
        return;
    }
    match host(text) {
        Some(host) => {
            meaning.departs(DepartureKind::Network, at);
            if host.starts_with('-') {
                meaning.departs(DepartureKind::Program, at);
            }
            meaning.does(EffectKind::Connect, On::Host(host, Some(at)));
        }
        None if text == "." || text.starts_with(['/', '.', '~']) => meaning.reads(call.operand(at)),
        None if text.starts_with("file://") => {
            let path = spelling::file_url(text).map(str::to_owned);
            meaning.reads(path.map_or(On::Unknown(Some(at)), |path| On::Path(path, Some(at))));
        }
        None => {
            meaning.departs(DepartureKind::Network, at);
            meaning.does(EffectKind::Connect, On::Unknown(Some(at)));
        }
    }
}

/// The host of `scheme://user@host:port/path` or `user@host:path`, which is ssh, with its port.
fn host(url: &str) -> Option<String> {
    if url.contains("://") {
        return hosts::of_url(url);
    }
    hosts::of_remote_path(url).map(|host| hosts::at_port(&host, SSH_PORT))
}

/// Notes an option that holds a command for the other end or this one.
fn note_command(call: &Call<'_>, meaning: &mut Meaning, place: Place) {
    meaning.runs_option_text(call.args(), place);
}
