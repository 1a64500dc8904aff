//! Paths that lead outside the workspace, where the owner wants none.
//!
//! What a program does to which path is read off the effects, and so is what it may read, as far as no table says what an
//! argument is. Of programs that no table knows, parts of paths count too, and of interpreters the string literals of code.
//! Links that exist are followed. A path that is not known before the command runs is refused only without a sandbox: that is
//! the boundary, this says the plain mistake before anything runs.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use helve_core::Decision;
use helve_shell::analysis::{Arg, ArgPart, Effect, EffectKind, Input, OpaqueReason, Run, Target};
use helve_shell::{Span, normal, spelling, text_arguments};

use super::hidden::is_hidden;
use super::judgement::{Mark, bytes};
use super::{Case, Guard, assignment, disk};
use crate::config::keys::{EXEC_RESTRICT, VIEW_READ_ONLY};

/// The rule that keeps a call's working directory inside the view.
pub(crate) const WORKING_DIR: &str = "view.working_dir";

/// A path outside, as it is written and as far as it is certain.
struct Outside {
    span: Span,
    run: Option<usize>,
    /// The path in its normal form, if it is written out from the root.
    absolute: Option<PathBuf>,
    /// What the message names.
    shown: String,
}

/// Refuses a command that names a path outside the workspace, where the owner wants that.
pub(super) fn judge_paths(guard: &Guard, case: &Case<'_>) -> Vec<Mark> {
    if guard.restricted_by.is_empty() {
        return Vec::new();
    }
    let lift: Vec<String> = guard.restricted_by.iter().map(|key| format!("{key} = false")).collect();
    let lift = lift.join("\n");
    let unread = case
        .analysis
        .opaque
        .iter()
        .find(|opaque| matches!(opaque.reason, OpaqueReason::Unreadable(_) | OpaqueReason::TooComplex));
    if let Some(opaque) = unread {
        let reason = format!("its paths cannot be checked: {}", opaque.reason);
        let decision = Decision::deny(EXEC_RESTRICT, reason).at(bytes(opaque.span)).grant(lift);
        return vec![Mark::new(decision, None)];
    }
    let found = Search::new(guard, case).all();
    // Paths that are written out can be opened alone; anything else only by lifting the restriction.
    let absolute: Option<Vec<&str>> =
        found.iter().map(|outside| outside.absolute.as_deref().and_then(Path::to_str)).collect();
    let grant = match absolute {
        Some(mut paths) => {
            paths.sort_unstable();
            paths.dedup();
            guard.opening(&paths)
        }
        None => Some(lift.clone()),
    };
    let mark = |outside: Outside| {
        let workspace = case.setting.workspace.display();
        let reason = match outside.shown.as_str() {
            home if home.starts_with('~') || home.starts_with("$HOME") || home.starts_with("${HOME") => {
                format!("{home} is in a home directory, outside the workspace")
            }
            path if path.starts_with('/') => format!("{path} is outside the workspace {workspace}"),
            path if spelling::has_parent(path) => format!("{path} leads above the workspace {workspace}"),
            path => format!("{path} leads outside the workspace {workspace}"),
        };
        let decision = Decision::deny(EXEC_RESTRICT, reason).at(bytes(outside.span));
        let decision = match &grant {
            Some(grant) => decision.grant(grant.clone()),
            None => decision,
        };
        Mark::new(decision, outside.run)
    };
    let hidden = case.analysis.effects.iter().filter(|effect| !case.contained && is_hidden(case, effect));
    let unknown = |effect: &Effect| {
        let reason = "which path this is shows only when it runs, and no sandbox keeps it in the workspace";
        Mark::new(
            Decision::deny(EXEC_RESTRICT, reason).at(bytes(effect.span)).grant(lift.clone()),
            effect.run,
        )
    };
    let hidden: Vec<Mark> = hidden.map(unknown).collect();
    found.into_iter().map(mark).chain(hidden).collect()
}

/// The most paths of one command whose links are followed; one with more is refused.
const MAX_FOLLOWED: usize = 16_384;

struct Search<'a> {
    guard: &'a Guard,
    case: &'a Case<'a>,
    found: Vec<Outside>,
    /// Where they stand: one is enough for each place, which may name many.
    places: HashSet<Span>,
    /// Whether the links of a path lead outside.
    followed: HashMap<PathBuf, bool>,
}

impl<'a> Search<'a> {
    fn new(guard: &'a Guard, case: &'a Case<'a>) -> Self {
        Search { guard, case, found: Vec::new(), places: HashSet::new(), followed: HashMap::new() }
    }

    fn all(mut self) -> Vec<Outside> {
        for effect in &self.case.analysis.effects {
            self.effect(effect);
        }
        for (index, run) in self.case.analysis.runs.iter().enumerate() {
            self.run(index, run);
        }
        for possible in &self.case.analysis.possible {
            self.effect(&possible.effect);
        }
        self.found.sort_by_key(|outside| outside.span);
        self.found
    }

    fn push(&mut self, outside: Outside) {
        if self.places.insert(outside.span) {
            self.found.push(outside);
        }
    }

    fn effect(&mut self, effect: &Effect) {
        let touches = matches!(
            effect.kind,
            EffectKind::Read
                | EffectKind::Write
                | EffectKind::Delete
                | EffectKind::DeleteTree
                | EffectKind::Execute
                | EffectKind::Device
        );
        let run = effect.run.and_then(|run| self.case.analysis.runs.get(run));
        if !touches || self.places.contains(&effect.span) || run.is_some_and(is_elsewhere) {
            return;
        }
        let path = match &effect.target {
            Target::Path { path, .. } => path,
            Target::Glob { under, .. } => under,
            Target::Unknown => {
                return self.home(effect.span, effect.run);
            }
            Target::Host(_) | Target::Machine => return,
        };
        // Where `..` follows a link, the text alone says too little.
        if self.is_outside(path, effect.target.as_written().unwrap_or(path)) {
            self.add(effect.span, effect.run, Some(path));
        }
    }

    fn run(&mut self, index: usize, run: &Run) {
        let name = run.program.as_deref().unwrap_or_default();
        if is_elsewhere(run) {
            return;
        }
        for (_, value) in run.environment.iter().filter(|(name, _)| name != "IFS") {
            for path in spelling::list(&shown(value)) {
                self.path(path, value.span, index, run);
            }
        }
        let moves = matches!(name, "cd" | "pushd");
        if name == "cd" && run.argv.len() == 1 {
            self.push(Outside { span: run.span, run: Some(index), absolute: None, shown: "~".into() });
        }
        let code = reads_code(name);
        let args = run.argv.get(1..).unwrap_or_default();
        let texts = if run.understood { HashSet::new() } else { text_arguments(name, args) };
        for (at, arg) in args.iter().enumerate() {
            if texts.contains(&at) {
                continue;
            }
            let text = shown(arg);
            if code {
                for path in spelling::literals(&text) {
                    self.path(path, arg.span, index, run);
                }
            }
            if moves || !run.understood && !prints(name) {
                for path in spelling::paths(&text) {
                    self.path(path, arg.span, index, run);
                }
                self.home(arg.span, Some(index));
                self.link(spelling::value(&text), arg.span, index, run);
            }
        }
        if let (true, Input::Text(text)) = (code, &run.input) {
            for path in spelling::literals(&shown(text)) {
                self.path(path, text.span, index, run);
            }
        }
    }

    /// A path that an argument of a run spells.
    fn path(&mut self, path: &str, span: Span, index: usize, run: &Run) {
        if self.places.contains(&span) {
            return;
        }
        if path.starts_with('~') {
            self.push(Outside { span, run: Some(index), absolute: None, shown: path.to_owned() });
            return;
        }
        let certain = path.split(spelling::UNKNOWN).next().unwrap_or_default();
        if certain == "/" && certain.len() < path.len() && !spelling::has_parent(path) {
            // Somewhere below the root, as $PATH is.
            return;
        }
        let full = match (&run.directory, path.starts_with('/')) {
            (_, true) => PathBuf::from(certain),
            (Some(directory), false) if certain.len() == path.len() => directory.join(path),
            // From an unknown place `..` leads to another one.
            _ if spelling::has_parent(path) => {
                let shown = path.replace(spelling::UNKNOWN, "…");
                self.push(Outside { span, run: Some(index), absolute: None, shown });
                return;
            }
            _ => return,
        };
        let textual = normal(&full);
        if self.is_outside(&textual, &full) {
            let absolute = path.starts_with('/').then_some(textual.as_path());
            let shown = path.replace(spelling::UNKNOWN, "…");
            self.push(Outside { span, run: Some(index), absolute: absolute.map(Path::to_owned), shown });
        }
    }

    /// An argument that stays inside by its text, and may be a link that does not.
    fn link(&mut self, value: &str, span: Span, index: usize, run: &Run) {
        let Some(directory) = &run.directory else { return };
        if value.is_empty()
            || value.starts_with('/')
            || value.contains(spelling::UNKNOWN)
            || spelling::has_parent(value)
        {
            return;
        }
        let full = directory.join(value);
        if self.is_outside(&full, &full) {
            self.push(Outside { span, run: Some(index), absolute: None, shown: value.to_owned() });
        }
    }

    /// A word that starts with a home directory which nobody knows.
    fn home(&mut self, span: Span, run: Option<usize>) {
        let written = self.written(span);
        let bare = written.trim_start_matches('"');
        let is_home = written.starts_with('~') || bare.starts_with("$HOME") || bare.starts_with("${HOME}");
        if is_home {
            self.add(span, run, None);
        }
    }

    fn add(&mut self, span: Span, run: Option<usize>, path: Option<&Path>) {
        if self.places.contains(&span) {
            return;
        }
        let written = self.written(span);
        let plain: String = written.chars().filter(|ch| !matches!(ch, '"' | '\'')).collect();
        let absolute = path.filter(|_| plain.starts_with('/')).map(Path::to_owned);
        let named = plain.starts_with(['/', '~', '$']) || spelling::has_parent(&plain);
        let shown = match path {
            Some(path) if !named => path.display().to_string(),
            _ => plain,
        };
        self.push(Outside { span, run, absolute, shown });
    }

    fn written(&self, span: Span) -> &str {
        self.case.text.get(span.range()).unwrap_or_default()
    }

    /// Whether a path lies outside by its text, or is led outside by a link.
    fn is_outside(&mut self, textual: &Path, physical: &Path) -> bool {
        if is_stream(textual) {
            return false;
        }
        if !self.guard.opened_or_inside(textual, self.case.setting.workspace) {
            return true;
        }
        if let Some(outside) = self.followed.get(physical) {
            return *outside;
        }
        if self.followed.len() >= MAX_FOLLOWED {
            return true;
        }
        let roots =
            self.guard.opened.read_only.iter().chain(&self.guard.opened.read_write).map(PathBuf::as_path);
        let outside =
            !roots.chain([self.case.setting.workspace]).any(|root| disk::stays_inside(physical, root));
        self.followed.insert(physical.to_owned(), outside);
        outside
    }
}

/// The argument's text with unknown parts marked.
fn shown(arg: &Arg) -> String {
    let mut text = String::new();
    for part in &arg.parts {
        match part {
            ArgPart::Known(known) => text.push_str(known),
            ArgPart::Glob(pattern) => text.push_str(pattern),
            ArgPart::Unknown => text.push(spelling::UNKNOWN),
        }
    }
    text
}

/// Whether its paths are those of another machine or another root.
pub(super) fn is_elsewhere(run: &Run) -> bool {
    const ELSEWHERE: [&str; 9] = [
        "ssh",
        "docker",
        "podman",
        "docker-compose",
        "kubectl",
        "nsenter",
        "chroot",
        "vagrant",
        "systemd-nspawn",
    ];
    run.via.iter().any(|wrapper| ELSEWHERE.contains(&wrapper.as_str()))
}

/// Programs that read code from an argument or from their input.
fn reads_code(name: &str) -> bool {
    const CODE: [&str; 14] = [
        "python", "pypy", "perl", "ruby", "node", "nodejs", "php", "lua", "deno", "awk", "gawk", "mawk",
        "nawk", "sed",
    ];
    CODE.contains(&name.trim_end_matches(|ch: char| ch.is_ascii_digit() || ch == '.'))
}

/// Programs whose arguments are text, whatever they look like.
fn prints(name: &str) -> bool {
    matches!(name, "echo" | "printf" | "tr" | "seq" | "expr" | "test" | "[" | "[[" | "true" | "false" | ":")
}

/// Devices that hold nothing of anybody.
pub(crate) fn is_stream(path: &Path) -> bool {
    const STREAMS: [&str; 9] =
        ["null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "tty"];
    path.strip_prefix("/dev").ok().and_then(Path::to_str).is_some_and(|name| {
        STREAMS.contains(&name)
            || name.strip_prefix("fd/").is_some_and(|fd| fd.bytes().all(|b| b.is_ascii_digit()))
    })
}

impl Guard {
    pub(super) fn opened_or_inside(&self, path: &Path, workspace: &Path) -> bool {
        let opened = self.opened.read_only.iter().chain(&self.opened.read_write);
        path.starts_with(workspace) || opened.into_iter().any(|root| path.starts_with(root))
    }

    /// The line that opens more paths and keeps those that are open; none if a path would open too much.
    fn opening(&self, more: &[&str]) -> Option<String> {
        if more.iter().any(|path| self.is_too_much(Path::new(path))) {
            return None;
        }
        let open = self.opened.read_only.iter().filter_map(|path| path.to_str());
        Some(assignment(VIEW_READ_ONLY, &open.chain(more.iter().copied()).collect::<Vec<_>>()))
    }

    /// Whether a path should not be opened for one command's sake: everything, a home directory or what holds some, and
    /// what leads to the kernel and to services.
    fn is_too_much(&self, path: &Path) -> bool {
        let is_home = path.parent() == Some(Path::new("/home"));
        let holds_home = |home: &Path| home.starts_with(path);
        let is_interface = ["/proc", "/sys", "/dev", "/run"].iter().any(|root| path.starts_with(root));
        is_home
            || is_interface
            || [Path::new("/home"), Path::new("/root")]
                .into_iter()
                .chain(self.home.as_deref())
                .any(holds_home)
    }
}

/// Refuses a working directory outside the view, whatever else is set. `usual` is what is visible without being
/// asked for.
pub(crate) fn judge_working_dir(
    guard: &Guard,
    directory: &Path,
    workspace: &Path,
    usual: &[PathBuf],
    hidden: &[PathBuf],
) -> Option<Decision> {
    let shown =
        guard.opened_or_inside(directory, workspace) || usual.iter().any(|root| directory.starts_with(root));
    if shown && !hidden.iter().any(|root| directory.starts_with(root)) {
        return None;
    }
    let reason = format!(
        "working_dir {} is outside what commands may see; use a directory inside {}",
        directory.display(),
        workspace.display()
    );
    let decision = Decision::deny(WORKING_DIR, reason);
    let grant = directory.to_str().filter(|_| !shown).and_then(|path| guard.opening(&[path]));
    Some(match grant {
        Some(grant) => decision.grant(grant),
        None => decision,
    })
}

/// Whether a relative path goes up.
pub(super) fn is_traversal(text: &str) -> bool {
    !text.starts_with(['/', '~'])
        && text.split(['/', '\\', ' ', '"', '\'', '=', ':']).any(|part| part == "..")
}
