//! `helve trust`: lets a workspace's own file count, exactly as it is now. Its `helve.toml` can only tighten; its notes for
//! agents are read to the model.

use std::fmt::Write as _;
use std::path::Path;

use clap::Args as ClapArgs;
use helve::store::{Home, Trust};
use helve::{Layer, Policy};
use helve_agent::prompt::NOTES;
use serde_json::json;

use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::{moment, setup, ui, workspace_file};

/// Trust the workspace's own helve.toml, or its notes for agents
#[derive(ClapArgs)]
#[command(long_about = "\
Trust the workspace's own helve.toml, or its notes for agents, exactly as they are now.

A project can bring a helve.toml of its own. It may only tighten: rules that ask or deny, smaller limits, the restriction to \
the workspace. It counts only after `helve trust`, which shows what is in it and what it tightens. What was trusted stays in \
force when the file changes or goes away, until `helve trust` or `helve trust --revoke`: a command that writes to the \
workspace cannot lift it.

\
With a NOTE (AGENTS.md, CLAUDE.md, GEMINI.md or .github/copilot-instructions.md) it is that file which `helve agent` and `helve \
chat` tell the model from then on, as it is now. Without that, a model is told nothing that lies in a workspace.")]
#[command(after_help = "\
Examples:
  helve trust
  helve trust AGENTS.md
  helve trust --list
  helve trust --revoke")]
pub(crate) struct Options {
    /// A file of notes for agents [default: helve.toml]
    #[arg(value_name = "NOTE", value_parser = clap::builder::PossibleValuesParser::new(NOTES), conflicts_with = "list")]
    note: Option<String>,
    /// Print the files that are trusted
    #[arg(long, conflicts_with = "revoke")]
    list: bool,
    /// Trust the workspace's file no longer
    #[arg(long)]
    revoke: bool,
}

pub(crate) fn trust(global: &Global, options: &Options) -> Result<u8, Failure> {
    match options {
        Options { list: true, .. } => list(global)?,
        Options { revoke: true, note, .. } => revoke(global, note.as_deref())?,
        Options { note: Some(note), .. } => trust_note(global, note)?,
        _ => show_and_trust(global)?,
    }
    Ok(0)
}

fn list(global: &Global) -> Result<(), Failure> {
    let trust = Trust::open_existing(&Home::default_path()?)?;
    let files = trust.map(|trust| trust.list()).transpose()?.unwrap_or_default();
    if global.json {
        return ui::print_json(&files);
    }
    if files.is_empty() {
        ui::note("no file of a workspace is trusted");
    }
    let mut text = String::new();
    for file in &files {
        let path = one_line(&file.path.display().to_string(), usize::MAX);
        let state = workspace_file::difference(file).map(|how| format!(", which {}", harmless(&how)));
        let state = state.unwrap_or_default();
        let _ = writeln!(text, "{}  {path}{state}", moment::show(file.trusted_at_us));
    }
    ui::print_styled(&text)
}

fn revoke(global: &Global, note: Option<&str>) -> Result<(), Failure> {
    let workspace = setup::workspace(global)?;
    let path = note.map_or_else(|| workspace_file::path(&workspace), |note| workspace.join(note));
    let shown = path.display();
    let trust = Trust::open_existing(&Home::default_path()?)?;
    if !trust.map(|trust| trust.revoke(&path)).transpose()?.unwrap_or(false) {
        return Err(Failure::not_found(format!(
            "{shown} is not trusted. `helve trust --list` shows what is"
        )));
    }
    if global.json {
        return ui::print_json(&json!({"revoked": ui::path_text(&path)}));
    }
    ui::note(&harmless(&format!("{shown} is trusted no longer")));
    Ok(())
}

/// Shows a note and lets models read it.
fn trust_note(global: &Global, note: &str) -> Result<(), Failure> {
    let path = setup::workspace(global)?.join(note);
    let shown = path.display();
    let file = workspace_file::read(&path)
        .map_err(|error| Failure::usage(format!("{shown} cannot be trusted: {error}")))?
        .ok_or_else(|| Failure::not_found(format!("there is no {shown}")))?;
    let trusted = Trust::new(&setup::home()?).trust(&path, &file.text)?;
    if global.json {
        return ui::print_json(&json!({"trusted": trusted}));
    }
    let mut text = format!("{}\n", ui::styled(ui::STRONG, &harmless(&shown.to_string())));
    for line in harmless(&file.text).lines() {
        let _ = writeln!(text, "  | {line}");
    }
    let _ = writeln!(
        text,
        "Models are told this, whatever becomes of the file, until `helve trust {note}` or `helve trust --revoke {note}`."
    );
    ui::print_styled(&text)
}

fn show_and_trust(global: &Global) -> Result<(), Failure> {
    let path = workspace_file::path(&setup::workspace(global)?);
    let shown = path.display();
    let file = workspace_file::read(&path)
        .map_err(|error| Failure::usage(format!("{shown} cannot be trusted: {error}")))?
        .ok_or_else(|| {
            Failure::not_found(format!("there is no {shown}. Name another workspace with --workspace DIR"))
        })?;
    let before = workspace_file::trusted(&path)?.filter(|before| before.text != file.text);
    // One that does not load, or loosens something, is an error here and not at the next call.
    let sources = helve::Sources { workspace: Some(file.clone()), ..setup::sources(global) };
    let policy = Policy::load(&sources).map_err(|error| Failure::usage(error.to_string()))?;
    let tightened = tightened(&policy, &path);
    let trusted = Trust::new(&setup::home()?).trust(&path, &file.text)?;
    if global.json {
        return ui::print_json(&json!({"trusted": trusted, "tightens": tightened}));
    }
    let mut text = format!("{}\n", ui::styled(ui::STRONG, &harmless(&shown.to_string())));
    for line in harmless(&file.text).lines() {
        let _ = writeln!(text, "  | {line}");
    }
    let _ = writeln!(text, "{}", ui::styled(ui::STRONG, "It tightens"));
    for line in &tightened {
        let _ = writeln!(text, "  {}", harmless(line));
    }
    if tightened.is_empty() {
        let _ = writeln!(text, "  nothing: what is in force is as strict already");
    }
    if let Some(before) = before {
        let _ = writeln!(text, "{}", ui::styled(ui::STRONG, "It replaces what was trusted before"));
        for line in harmless(&before.text).lines() {
            let _ = writeln!(text, "  | {line}");
        }
    }
    let _ = writeln!(
        text,
        "It is trusted as it is now and stays in force, whatever becomes of the file, until `helve trust --revoke`."
    );
    ui::print_styled(&text)
}

/// What comes from the workspace's file: rules and settings.
fn tightened(policy: &Policy, path: &Path) -> Vec<String> {
    let from_here =
        |origin: &helve::Origin| origin.layer == Layer::Workspace && origin.file.as_deref() == Some(path);
    let rules = policy.rules_shown().into_iter().filter(|rule| from_here(&rule.origin)).map(|rule| {
        let mut what = rule.rule;
        if let Some(members) = what.as_object_mut() {
            members.retain(|key, _| !matches!(key.as_str(), "verdict" | "allows" | "asks" | "denies"));
        }
        let verdict = match rule.verdict {
            helve::Verdict::Allow => "allows",
            helve::Verdict::Ask => "asks about",
            helve::Verdict::Deny => "denies",
        };
        format!("{}: {verdict} {what}", rule.name)
    });
    let settings = policy.explain().into_iter().filter(|setting| from_here(&setting.origin));
    let settings = settings.filter(|setting| setting.key != "rules");
    let settings =
        settings.map(|setting| format!("{} = {}", setting.key, setting.toml().unwrap_or_default()));
    rules.chain(settings).collect()
}
