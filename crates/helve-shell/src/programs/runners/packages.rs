//! Runners of packages and of a project's own scripts.

use crate::analysis::{Arg, DepartureKind, EffectKind, Input, More, OpaqueReason};
use crate::programs::options::{Grammar, Item, Order, read_from};
use crate::programs::{Inner, Invocation, Meaning, On};

/// What such a runner does, if the program is one and this is not another of its subcommands.
pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut meaning = Meaning::default();
    let verb = invocation.text(0);
    match (invocation.program, verb) {
        ("npx" | "bunx" | "pnpx" | "uvx" | "dlx", _) => package(&mut meaning, invocation, 0),
        ("npm" | "pnpm" | "yarn" | "bun", Some("exec" | "x" | "dlx")) => package(&mut meaning, invocation, 1),
        ("pipx" | "uv", Some("run")) | ("poetry" | "pipenv" | "rye" | "hatch" | "pdm", Some("run")) => {
            project_command(&mut meaning, invocation);
        }
        ("uv", Some("tool")) if invocation.text(1) == Some("run") => package(&mut meaning, invocation, 2),
        ("bundle", Some("exec")) => meaning.runs(invocation.from(1), invocation.more),
        (
            "npm" | "pnpm" | "yarn" | "bun",
            Some("run" | "run-script" | "test" | "t" | "start" | "restart" | "stop"),
        )
        | ("cargo", Some("run" | "r" | "test" | "t" | "bench"))
        | ("go", Some("run" | "test" | "generate"))
        | ("dotnet", Some("run" | "test"))
        | ("deno", Some("run" | "test" | "task" | "serve"))
        | (
            "just" | "task" | "rake" | "gulp" | "grunt" | "ninja" | "invoke" | "nox" | "tox" | "mage" | "ant",
            _,
        )
        | ("gradle" | "mvn" | "gradlew" | "mvnw", _)
            if !asks(invocation) =>
        {
            meaning.hides(OpaqueReason::Script, Some(0).filter(|_| !invocation.args.is_empty()));
        }
        ("deno", Some("eval")) => {
            let first = (1..invocation.args.len()).find(|at| !invocation.args[*at].prefix().starts_with('-'));
            first.into_iter().for_each(|at| code(&mut meaning, "node", at, invocation));
        }
        ("bun", Some("-e" | "--eval" | "-p" | "--print")) => code(&mut meaning, "node", 1, invocation),
        ("bun" | "deno", Some("-")) => stdin(&mut meaning, invocation),
        ("bun", Some(file)) if file.contains('.') => meaning.runs_script(On::Arg(0), 0),
        _ => return None,
    }
    Some(meaning)
}

/// Whether only help, the version or a list is wanted.
fn asks(invocation: &Invocation<'_>) -> bool {
    let asking =
        |arg: &Arg| matches!(arg.text(), Some("--help" | "--version" | "-h" | "-V" | "--list" | "-l"));
    invocation.args.iter().take(2).any(asking)
}

fn code(meaning: &mut Meaning, language: &'static str, at: usize, invocation: &Invocation<'_>) {
    meaning.departs(DepartureKind::Code, at.min(invocation.args.len()));
    meaning.hides(OpaqueReason::Code, None);
    if let Some(text) = invocation.args.get(at) {
        meaning.inner.push(Inner::Code { language, text: text.clone() });
    }
}

fn stdin(meaning: &mut Meaning, invocation: &Invocation<'_>) {
    meaning.hides(OpaqueReason::Code, None);
    if let Input::Text(text) = invocation.input {
        meaning.inner.push(Inner::Code { language: "node", text: text.clone() });
    }
}

const PACKAGE: Grammar = Grammar {
    flags: "yqn",
    values: "pcw",
    names: &[
        "call= package= yes no no-install quiet silent ignore-existing shell-auto-fallback workspace= workspaces node-options= \
         bun prefer-offline offline from= with= python= spec= index-url= refresh isolated verbose system-site-packages \
         pip-args= registry= loglevel= parseable include-workspace-root allow-build=",
    ],
    order: Order::First,
    ..Grammar::NONE
};

/// `npx [options] PACKAGE …`: a program of that name, fetched if it is not there.
fn package(meaning: &mut Meaning, invocation: &Invocation<'_>, first: usize) {
    let items = read_from(invocation.args, first, &PACKAGE);
    meaning.notes_unknown(&items);
    let mut command = invocation.args.len();
    for item in items {
        match item {
            Item::Value("c" | "call", place) => {
                place.value(invocation.args).into_iter().for_each(|text| meaning.runs_text(text, "sh"));
            }
            Item::Operand(at) | Item::Maybe(at) => command = command.min(at),
            _ => {}
        }
    }
    // What the package does is not part of the command.
    meaning.hides(OpaqueReason::Script, (command < invocation.args.len()).then_some(command));
    let argv = invocation.from(command);
    if let Some(named) = argv.first().and_then(Arg::text) {
        // `prettier@3` and `@scope/tool` are installed as `prettier` and `tool`.
        let name = named.rsplit('/').next().unwrap_or(named);
        let name = name.split('@').next().unwrap_or(name);
        if named.contains("://") || named.starts_with("git+") || named.starts_with("github:") {
            meaning.departs(DepartureKind::Network, command);
            meaning.does(EffectKind::Connect, On::Unknown(Some(command)));
            return;
        }
        let mut argv = argv.to_vec();
        argv[0] = Arg::known(name, argv[0].span);
        meaning.runs(&argv, invocation.more);
    } else if invocation.more != More::Nothing || !argv.is_empty() {
        meaning.runs(argv, invocation.more);
    }
}

const PROJECT: Grammar = Grammar {
    flags: "qvnms",
    values: "pwe",
    names: &[
        "with= with-requirements= with-editable= extra= all-extras group= no-group= dev no-dev only-dev python= package= \
         project= directory= env-file= no-sync frozen locked isolated no-project module script quiet verbose offline \
         spec= pip-args= active refresh index-url= index= default-index= all-groups reinstall no-config",
    ],
    order: Order::First,
    ..Grammar::NONE
};

/// `uv run COMMAND …`, `poetry run COMMAND …`: a command in the project's environment.
fn project_command(meaning: &mut Meaning, invocation: &Invocation<'_>) {
    let items = read_from(invocation.args, 1, &PROJECT);
    meaning.notes_unknown(&items);
    let mut module = false;
    let mut command = invocation.args.len();
    for item in items {
        match item {
            Item::Flag("m" | "module" | "s" | "script", _) => module = true,
            Item::Operand(at) | Item::Maybe(at) => command = command.min(at),
            _ => {}
        }
    }
    let argv = invocation.from(command);
    let script = invocation.text(command).is_some_and(|text| text.ends_with(".py"));
    if script {
        meaning.runs_script(On::Arg(command), command);
    } else if module || invocation.program == "pipx" {
        meaning.hides(OpaqueReason::Script, (command < invocation.args.len()).then_some(command));
    } else {
        meaning.runs(argv, invocation.more);
    }
}
