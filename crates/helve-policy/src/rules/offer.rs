//! Patterns that a person is offered: the smallest useful one for a command that asked, and never one that gives away
//! everything.

use std::path::Path;

use helve_shell::analysis::{Analysis, Arg, EffectKind, Run, Target};
use helve_shell::quote;

use super::pattern::CommandPattern;

mod never;

/// Programs whose first words say what they do; allowing them without gives away everything.
const COMMANDERS: &[&str] = &[
    "apt",
    "apt-get",
    "aws",
    "az",
    "brew",
    "bundle",
    "cargo",
    "composer",
    "conda",
    "dnf",
    "docker",
    "dotnet",
    "flutter",
    "gcloud",
    "gem",
    "gh",
    "git",
    "glab",
    "go",
    "gradle",
    "helm",
    "hg",
    "jj",
    "kubectl",
    "mvn",
    "nix",
    "npm",
    "pip",
    "pip3",
    "pnpm",
    "podman",
    "poetry",
    "rails",
    "rustup",
    "svn",
    "terraform",
    "uv",
    "yarn",
];

/// Subcommands that run whatever they are given, or change which code runs.
const NEVER_AFTER: &[(&str, &[&str])] = &[
    ("git", &["config", "filter-branch", "bisect", "submodule", "difftool", "mergetool", "rebase", "alias"]),
    ("docker", &["run", "exec", "compose", "buildx"]),
    ("podman", &["run", "exec", "compose"]),
    ("kubectl", &["exec", "run", "debug", "delete", "apply"]),
    ("npm", &["exec", "x", "config", "explore", "install-script"]),
    ("pnpm", &["exec", "dlx", "config"]),
    ("yarn", &["exec", "dlx", "node", "config"]),
    ("uv", &["run", "tool"]),
    ("poetry", &["run"]),
    ("bundle", &["exec"]),
    ("conda", &["run"]),
    ("go", &["run", "generate", "tool"]),
    ("cargo", &["install"]),
    ("dotnet", &["run", "exec"]),
    ("nix", &["run", "develop", "shell"]),
    ("gh", &["alias", "extension", "api", "auth"]),
    ("aws", &["configure"]),
    ("terraform", &["apply", "destroy"]),
];

/// Subcommands of which the next word says what they do.
const SECOND: &[(&str, &[&str])] = &[
    ("npm", &["run", "run-script"]),
    ("pnpm", &["run"]),
    ("yarn", &["run", "workspace"]),
    ("bun", &["run"]),
    ("git", &["stash", "remote", "worktree", "notes", "lfs"]),
    ("docker", &["image", "container", "volume", "network"]),
    ("gh", &["pr", "issue", "repo", "run", "release", "workflow"]),
    ("kubectl", &["get", "describe", "config", "rollout"]),
    ("cargo", &["nextest"]),
    ("go", &["mod"]),
    ("pip", &["cache"]),
];

/// Whether a longer yes to commands of this kind would give away everything: shells, interpreters, programs that start
/// others, those that destroy, and programs such as git without a subcommand. `argv` is the name with its arguments.
pub fn never_offered<S: AsRef<str>>(argv: &[S]) -> bool {
    let Some(name) = argv.first() else { return true };
    let name = base(name.as_ref());
    // `python3.12`, `gcc-13`: the name before the number counts.
    let plain = name.trim_end_matches(|ch: char| ch.is_ascii_digit() || ch == '.' || ch == '-');
    let stem = name.strip_suffix(".exe").unwrap_or(name);
    if [name, plain, stem].iter().any(|name| never::gives_away_everything(name)) {
        return true;
    }
    if !COMMANDERS.contains(&name) {
        return false;
    }
    let Some(first) = argv.get(1).map(AsRef::as_ref) else { return true };
    // An option before the subcommand may name a directory, a configuration, another host.
    let hidden =
        !first.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b':') || first.starts_with('-');
    let never = NEVER_AFTER.iter().any(|(program, words)| *program == name && words.contains(&first));
    let open =
        SECOND.iter().any(|(program, words)| *program == name && words.contains(&first)) && argv.len() < 3;
    // `cargo --version` says all that it does.
    let alone = argv.len() == 2 && matches!(first, "--version" | "-V" | "--help" | "-h" | "version" | "help");
    (hidden || never || open) && !alone
}

/// How many words of a known argv say what the command is: the program and its subcommands.
pub(super) fn fixed_words(argv: &[&str]) -> usize {
    let name = argv.first().map_or("", |name| base(name));
    if !COMMANDERS.contains(&name) {
        return 1;
    }
    let second = argv.get(1).copied().unwrap_or_default();
    let deeper = SECOND.iter().any(|(program, words)| *program == name && words.contains(&second));
    argv.len().min(if deeper { 3 } else { 2 })
}

fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The smallest useful pattern for a run that asked: its words as they are; if it only reads, with a slot for each path
/// inside the workspace. None where no pattern can vouch for the run or it must never be offered.
pub fn propose(analysis: &Analysis, run: usize, workspace: &Path) -> Option<String> {
    let found = analysis.runs.get(run)?;
    let words: Vec<&str> = found.argv.iter().map(|arg| arg.text().unwrap_or_default()).collect();
    if never_offered(&words) {
        return None;
    }
    let covers = |text: &String| {
        let pattern = CommandPattern::parse(text);
        pattern.is_ok_and(|pattern| pattern.covers(analysis, run, workspace).is_ok())
    };
    let fixed = fixed_words(&words);
    // What changes something is offered word for word.
    let only_reads = only_reads(analysis, run);
    let slotted = pattern_of(found, |at, arg| only_reads && at >= fixed && is_inside(analysis, run, arg));
    let exact = pattern_of(found, |_, _| false);
    [slotted, exact].into_iter().flatten().find(covers)
}

/// Whether all that a run is known to do is reading.
pub(super) fn only_reads(analysis: &Analysis, run: usize) -> bool {
    let mut effects = analysis.effects.iter().filter(|effect| effect.run == Some(run));
    effects.all(|effect| effect.kind == EffectKind::Read)
}

/// The words of a run as a pattern, with `<path>` where `is_path` says so; none if another word is not known.
fn pattern_of(run: &Run, is_path: impl Fn(usize, &Arg) -> bool) -> Option<String> {
    let mut words = Vec::new();
    for (at, arg) in run.argv.iter().enumerate() {
        words.push(match arg.text() {
            _ if is_path(at, arg) => "<path>".to_owned(),
            Some(text) if text.chars().any(char::is_control) => return None,
            Some(text) => word(text),
            None => return None,
        });
    }
    Some(words.join(" "))
}

/// Text as one word of a pattern, in quotes where it needs them.
pub(super) fn word(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-./:@%+,=".contains(&b);
    if !text.is_empty() && text.bytes().all(plain) { text.to_owned() } else { quote(text).into_owned() }
}

/// Whether the argument is a path inside the workspace.
fn is_inside(analysis: &Analysis, run: usize, arg: &Arg) -> bool {
    let within = |span: helve_shell::Span| arg.span.start <= span.start && span.end <= arg.span.end;
    let mut effects =
        analysis.effects.iter().filter(|one| one.run == Some(run) && within(one.span)).peekable();
    effects.peek().is_some()
        && !arg.may_be_option()
        && effects.all(|effect| {
            matches!(&effect.target, Target::Path { inside: true, .. } | Target::Glob { inside: true, .. })
        })
}

#[cfg(test)]
mod tests;
