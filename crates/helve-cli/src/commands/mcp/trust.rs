//! `helve mcp trust`: shows what a server says of its tools, against what the owner agreed to before, and pins it.

use std::fmt::Write as _;

use clap::Args as ClapArgs;
use helve::mcp::client::Definition;
use helve::mcp::{ServerLook, Standing, ToolLook};
use helve::store::{NewPin, Pins};
use serde_json::{Value, json};

use super::file::Consent;
use super::{config, live};
use crate::args::Global;
use crate::commands::diff;
use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::{setup, ui};

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  helve mcp trust time
  helve mcp trust git --tool git_push
  helve mcp trust git --anew")]
pub(super) struct Options {
    /// The server
    name: String,
    /// Only this tool, by the server's own name for it
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Forget what was agreed to before and begin from nothing
    #[arg(long, conflicts_with = "tool")]
    anew: bool,
    /// Agree without a question
    #[arg(long)]
    yes: bool,
}

pub(super) fn trust(global: &Global, options: &Options) -> Result<(), Failure> {
    let policy = setup::policy(global)?;
    config::enabled_server(&policy, &options.name)?;
    let consent = Consent::of(options.yes);
    let home = setup::home()?;
    let seen = || -> Result<bool, Failure> { Ok(Pins::new(&home).of(&options.name)?.is_some()) };
    if options.anew {
        consent.can_be_had()?;
        if !consent.is_given(&format!("Forget everything that you agreed to of {}?", options.name)) {
            ui::note("nothing is forgotten");
            return told(global, (&options.name, seen()?), false, &[]);
        }
        Pins::new(&home).forget(&options.name)?;
    }
    let seen_before = seen()?;
    let fleet = live::fleet(global, &policy)?;
    let look = live::block_on(async {
        let look = fleet.look(&options.name).await;
        fleet.close().await;
        look
    })?;
    let look = look.map_err(|error| live::told(&error))?;
    let open = waiting(&look, options.tool.as_deref())?;
    consent.show(global.json, &shown(&look, &open, seen_before))?;
    if !open.is_empty() {
        consent.can_be_had()?;
        if !consent.is_given(&format!("Agree to {} of {}?", live::counted(open.len()), options.name)) {
            ui::note("nothing is agreed to");
            return told(global, (&options.name, seen_before), false, &open);
        }
    }
    // Exactly what was shown, whatever the server says meanwhile.
    let pin = |tool: &&ToolLook| {
        let Definition { tool, hash, pinned, .. } = &tool.definition;
        NewPin { tool: tool.clone(), hash: hash.clone(), definition: pinned.clone() }
    };
    Pins::new(&home).pin(&options.name, open.iter().map(pin).collect())?;
    told(global, (&options.name, seen_before), true, &open)?;
    if !open.is_empty() && !global.json {
        ui::note(&format!("{} can be called now", live::counted(open.len())));
    }
    Ok(())
}

/// For programs: what was agreed to of a server, or what was not.
fn told(
    global: &Global,
    (server, seen_before): (&str, bool),
    is_agreed: bool,
    tools: &[&ToolLook],
) -> Result<(), Failure> {
    if !global.json {
        return Ok(());
    }
    let tools: Vec<Value> = tools
        .iter()
        .map(|tool| {
            let Definition { tool: name, hash, pinned, .. } = &tool.definition;
            let before = if let Standing::Changed { old, .. } = &tool.standing { Some(old) } else { None };
            json!({"tool": name, "hash": hash, "definition": pinned, "before": before})
        })
        .collect();
    let (pinned, waiting) = if is_agreed { (tools, Vec::new()) } else { (Vec::new(), tools) };
    ui::print_json(
        &json!({"server": server, "seen_before": seen_before, "pinned": pinned, "waiting": waiting}),
    )
}

/// The tools that wait for the owner's yes.
fn waiting<'l>(look: &'l ServerLook, only: Option<&str>) -> Result<Vec<&'l ToolLook>, Failure> {
    let named = |tool: &&ToolLook| only.is_none_or(|name| tool.definition.tool == name);
    if let Some(name) = only
        && !look.tools.iter().any(|tool| tool.definition.tool == name)
    {
        return Err(Failure::not_found(format!(
            "{} has no tool {name:?}. `helve mcp test {}` shows them",
            look.name, look.name
        )));
    }
    Ok(look.tools.iter().filter(named).filter(|tool| live::waits(tool)).collect())
}

fn shown(look: &ServerLook, open: &[&ToolLook], seen_before: bool) -> String {
    let mut text = String::new();
    if !seen_before {
        let heading =
            format!("{} was started for the first time: its tools are pinned as they are", look.name);
        let _ = writeln!(text, "{}", ui::styled(ui::STRONG, &heading));
        text.push_str(&live::tools(look));
    } else if open.is_empty() {
        let _ = writeln!(text, "{}: nothing has changed since you agreed", look.name);
    }
    for tool in open {
        let definition = &tool.definition;
        let name = one_line(&definition.tool, 100);
        let new = pretty(&definition.pinned);
        match &tool.standing {
            Standing::Changed { old, .. } => {
                let _ = writeln!(text, "{}", ui::styled(ui::STRONG, &format!("{name} has changed")));
                let changed = helve::unified_diff(&name, pretty(old).as_bytes(), new.as_bytes());
                text.push_str(&diff::lines(&changed.unwrap_or(new)));
            }
            _ => {
                let _ = writeln!(text, "{}", ui::styled(ui::STRONG, &format!("{name} is new")));
                let _ = writeln!(text, "{}", harmless(&new));
            }
        }
        let _ = writeln!(text, "{}", ui::styled(ui::FAINT, &one_line(&definition.hash, 80)));
    }
    text
}

fn pretty(value: &Value) -> String {
    format!("{}\n", serde_json::to_string_pretty(value).unwrap_or_default())
}
