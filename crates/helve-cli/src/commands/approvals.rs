//! `helve approvals`: what the owner allowed for longer than one call, and how to take it back.

use std::fmt::Write as _;

use clap::{Args as ClapArgs, Subcommand};
use helve::store::{ApprovalScope, Approvals, StoredApproval, Within};
use serde_json::json;

use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::{moment, setup, ui};

/// List or revoke what was allowed for longer than one call
#[derive(ClapArgs)]
#[command(long_about = "\
List or revoke what was allowed for longer than one call.

An approval comes from a question that was answered with `session` or `always`. It holds for commands that match its rule, \
in the directory and with the scripts that were shown, until it expires or is revoked; then the question comes again. \
Approvals never lift a refusal, and never what the machine's ceiling forbids.")]
#[command(after_help = "\
Examples:
  helve approvals list
  helve approvals list --all --json
  helve approvals revoke a_4k2m9qx0dz
  helve approvals revoke --all")]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print the approvals that hold, the newest first
    List {
        /// Also those that were revoked or have expired in the last 30 days
        #[arg(long)]
        all: bool,
    },
    /// End approvals, by their ids
    Revoke {
        /// The ids
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<String>,
        /// Every approval that holds
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
}

pub(crate) fn approvals(global: &Global, options: &Options) -> Result<u8, Failure> {
    let store = existing()?;
    match &options.action {
        Action::List { all } => list(global, store.as_ref(), *all)?,
        Action::Revoke { ids, all } => revoke(global, store, ids, *all)?,
    }
    Ok(0)
}

/// The approvals that are there. To look makes neither the file nor the state directory.
fn existing() -> Result<Option<Approvals>, Failure> {
    let home = setup::existing_home()?;
    Ok(home.map(|home| Approvals::open_existing(&home)).transpose()?.flatten())
}

fn list(global: &Global, store: Option<&Approvals>, all: bool) -> Result<(), Failure> {
    let approvals = store.map(|store| store.list(all)).transpose()?.unwrap_or_default();
    if global.json {
        return ui::print_json(&approvals);
    }
    if approvals.is_empty() {
        ui::note("nothing is allowed for longer than one call");
    }
    let text: String = approvals.iter().map(described).collect();
    ui::print_styled(&text)
}

/// Prints one approval by its id, whether it still holds or not.
pub(crate) fn show(global: &Global, id: &str) -> Result<(), Failure> {
    let store = existing()?;
    let approval = store.map(|store| store.get(id)).transpose()?.flatten();
    match approval {
        Some(approval) if global.json => ui::print_json(&approval),
        Some(approval) => ui::print_styled(&described(&approval)),
        None => Err(Failure::not_found(format!(
            "no approval is called {}. `helve approvals list --all` shows them",
            one_line(id, 80)
        ))),
    }
}

/// One approval on a few lines: what is allowed, where it comes from, what it is bound to.
fn described(approval: &StoredApproval) -> String {
    let granted = &approval.granted;
    let place = match &granted.scope {
        ApprovalScope::Session(name) => format!("in the session {name}"),
        ApprovalScope::Workspace(path) => format!("in the workspace {path}"),
        ApprovalScope::User => "everywhere".to_owned(),
    };
    let mut text = format!(
        "{}  {} {}\n",
        ui::styled(ui::STRONG, &approval.id),
        harmless(&granted.tool),
        one_line(&granted.pattern, usize::MAX),
    );
    let directory = match (&granted.scope, granted.cwd.as_str()) {
        (ApprovalScope::User, ".") => "only in the top directory of a workspace".to_owned(),
        (ApprovalScope::User, below) if !below.starts_with('/') => format!("only in {below} of a workspace"),
        (_, directory) => format!("only in {directory}"),
    };
    let mut facts = vec![place, directory];
    facts.push(match (approval.revoked_at_us, granted.expires_at_us) {
        (Some(at), _) => format!("revoked {}", moment::show(at)),
        (None, Some(at)) => format!("until {}", moment::show(at)),
        (None, None) => "until it is revoked".to_owned(),
    });
    facts.push(format!("given {} by {}", moment::show(approval.created_at_us), granted.created_by));
    facts.push(match (approval.uses, approval.last_used_at_us) {
        (0, _) | (_, None) => "never used".to_owned(),
        (1, Some(at)) => format!("used once, {}", moment::show(at)),
        (uses, Some(at)) => format!("used {uses} times, last {}", moment::show(at)),
    });
    let facts = one_line(&facts.join("; "), usize::MAX);
    let _ = writeln!(text, "              {}", ui::styled(ui::FAINT, &facts));
    let within = match granted.within {
        Within::Sandbox => "in the sandbox",
        Within::Wrapper => "in the wrapper",
        Within::Nothing => "without a sandbox",
    };
    let asked = format!("for what {} asks about calls by {} {within}", granted.rule, granted.caller);
    let asked = one_line(&asked, usize::MAX);
    let _ = writeln!(text, "              {}", ui::styled(ui::FAINT, &asked));
    for script in &granted.scripts {
        let script = format!("with {} as it was then", one_line(&script.path, usize::MAX));
        let _ = writeln!(text, "              {}", ui::styled(ui::FAINT, &script));
    }
    text
}

fn revoke(global: &Global, store: Option<Approvals>, ids: &[String], all: bool) -> Result<(), Failure> {
    let mut revoked = Vec::new();
    let mut unknown = Vec::new();
    match store {
        Some(mut store) => {
            let ids = match all {
                true => store.list(false)?.into_iter().map(|approval| approval.id).collect(),
                false => ids.to_vec(),
            };
            for id in ids {
                if store.revoke(&id)? { revoked.push(id) } else { unknown.push(id) }
            }
        }
        None => unknown = ids.to_vec(),
    }
    if !unknown.is_empty() && !all {
        let done =
            if revoked.is_empty() { String::new() } else { format!(" ({} revoked)", revoked.join(", ")) };
        return Err(Failure::not_found(format!(
            "no approval that holds is called {}{done}. `helve approvals list` shows them",
            one_line(&unknown.join(", "), 200)
        )));
    }
    if global.json {
        return ui::print_json(&json!({"revoked": revoked}));
    }
    match revoked.as_slice() {
        [] => ui::note("nothing was allowed for longer than one call"),
        ids => ui::note(&format!("{} revoked: what they allowed asks again", ids.join(", "))),
    }
    Ok(())
}
