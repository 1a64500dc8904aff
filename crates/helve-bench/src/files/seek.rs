//! `grep` and `glob` beside ripgrep.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use helve::files::{Kinds, WalkRequest};
use helve::{Context, Lane, Output, ToolError, ToolSpec, TypedTool};
use serde_json::{Value, json};

use super::tree::{FILES, MATCHES, PATTERN};
use super::{Asked, Library, Measured, Place};
use crate::report::{Promise, Row};
use crate::sample::in_turns;

/// A tool that walks the whole workspace, as `rg --files` does: `glob` would end at its page.
pub(super) struct Everything;

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(super) struct NoArgs {}

impl TypedTool for Everything {
    type Args = NoArgs;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new("everything", "Walks the whole workspace.", parameters).lane(Lane::Files).read_only()
    }

    async fn run(&self, _: NoArgs, ctx: &Context) -> Result<Output, ToolError> {
        let request = WalkRequest {
            path: ".".into(),
            globs: Vec::new(),
            kinds: Kinds::Files,
            hidden: true,
            obey_ignore: true,
            depth: None,
            limit: usize::MAX,
            after: None,
            stat: false,
        };
        let found = ctx.files()?.walk(&request).await?;
        Ok(Output::text("").with_details(json!({"found": found.entries.len()})))
    }
}

/// What ripgrep is told so that it does what the tools do.
const FLAGS: [&str; 7] = [
    "--no-config",
    "--hidden",
    "--no-require-git",
    "--no-ignore-global",
    "--no-ignore-parent",
    "--color=never",
    "--no-heading",
];

pub(super) fn measure(asked: &Asked<'_>, place: &Place) -> Measured<Vec<Row>> {
    let workspace = place.workspace();
    let library = Library::new(&workspace, &place.root.path().join("state"))?;
    let rounds = if asked.quick { 5 } else { 25 };
    let grep_args = json!({"pattern": PATTERN, "limit": 0});
    let grep = || same(&library.call("grep", &grep_args)?.details["matches"], MATCHES);
    let everything = || same(&library.call("everything", &json!({}))?.details["found"], FILES + 1);
    let glob_args = json!({"pattern": "*.toml", "limit": 10_000});
    let glob = || -> Measured<()> {
        library.call("glob", &glob_args)?;
        Ok(())
    };
    let Some(rg) = asked.rg.clone().or_else(in_path) else {
        return Ok(vec![missing("grep over 20,000 files"), missing("glob, every file")]);
    };
    let rg_grep = || same_lines(run(&rg, &workspace, &["-n", "-e", PATTERN, "./"])?, MATCHES);
    let rg_files = || same_lines(run(&rg, &workspace, &["--files", "./"])?, FILES + 1);
    let rg_toml = || same_lines(run(&rg, &workspace, &["--files", "-g", "*.toml", "./"])?, FILES / 8);
    let state = place.root.path().join("processes");
    let process = |tool: &str, args: &Value| helve_call(asked.helve, &workspace, &state, tool, args);
    let row = |name: &'static str, pair: crate::sample::Pair, beside, promise| Row {
        name: name.into(),
        subject: pair.subject,
        reference: Some((beside, pair.reference)),
        promise,
        mib: None,
    };
    Ok(vec![
        row(
            "grep over 20,000 files",
            in_turns(rounds, 1, grep, rg_grep)?,
            "rg, a process",
            Promise::Ratio(1.05),
        ),
        row(
            "walk over 20,000 files, all given",
            in_turns(rounds, 1, everything, rg_files)?,
            "rg --files, a process",
            Promise::Ratio(1.05),
        ),
        row(
            "glob *.toml",
            in_turns(rounds, 1, glob, rg_toml)?,
            "rg --files -g *.toml, a process",
            Promise::Ratio(1.05),
        ),
        row(
            "helve call grep, one process",
            in_turns(rounds.min(10), 1, || process("grep", &grep_args), rg_grep)?,
            "rg, a process",
            Promise::None,
        ),
        row(
            "helve call glob, one process",
            in_turns(rounds.min(10), 1, || process("glob", &glob_args), rg_toml)?,
            "rg --files -g *.toml, a process",
            Promise::None,
        ),
    ])
}

/// A promise that cannot be kept without the program beside which it stands.
fn missing(name: &'static str) -> Row {
    Row {
        name: name.into(),
        subject: std::time::Duration::ZERO,
        reference: Some(("rg is not installed: see --rg", std::time::Duration::ZERO)),
        promise: Promise::Mib(0.0),
        mib: None,
    }
}

fn in_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join("rg")).find(|program| program.is_file())
}

fn run(rg: &Path, dir: &Path, args: &[&str]) -> Measured<Vec<u8>> {
    let output = Command::new(rg)
        .args(FLAGS)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    Ok(output.stdout)
}

fn helve_call(helve: &Path, dir: &Path, state: &Path, tool: &str, args: &Value) -> Measured<()> {
    let output = Command::new(helve)
        .args(["call", tool, &args.to_string()])
        .current_dir(dir)
        .env("HELVE_HOME", state)
        .env("XDG_CONFIG_HOME", state.join("config"))
        .stdin(Stdio::null())
        .output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
    }
}

fn same(found: &Value, expected: usize) -> Measured<()> {
    match found.as_u64() == Some(expected as u64) {
        true => Ok(()),
        false => Err(format!("{expected} were to be found, but {found} were").into()),
    }
}

fn same_lines(output: Vec<u8>, expected: usize) -> Measured<()> {
    let lines = output.iter().filter(|byte| **byte == b'\n').count();
    match lines == expected {
        true => Ok(()),
        false => Err(format!("rg was to find {expected}, but found {lines}").into()),
    }
}
