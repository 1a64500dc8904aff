//! `helve mcp remove`: takes an MCP server out of the user's configuration, and forgets what was kept of it.

use clap::Args as ClapArgs;
use helve::store::{Pins, ServerLogs, Tokens};
use helve::text::remove_table;
use serde_json::json;

use super::config;
use super::file::{self, Change, Consent};
use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::harmless;
use crate::{setup, ui};

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  helve mcp remove time
  helve mcp remove time --yes --json")]
pub(super) struct Options {
    /// The server
    name: String,
    /// Remove without a question
    #[arg(long)]
    yes: bool,
}

pub(super) fn remove(global: &Global, options: &Options) -> Result<(), Failure> {
    let name = options.name.as_str();
    let path = file::real(&config::user_file(global)?)?;
    let not_there = || {
        Failure::not_found(format!(
            "{} has no MCP server {name:?}. `helve mcp list` shows them",
            path.display()
        ))
    };
    let before = file::read(&path)?.ok_or_else(not_there)?;
    let cannot = |why| Failure::usage(format!("{} cannot be changed: {why}", path.display()));
    let after = remove_table(&before, &["mcp", "servers", name]).map_err(cannot)?.ok_or_else(not_there)?;
    config::check(global, &after)?;
    let gone = config::draft(&path, &before, name)?.map(|draft| draft.shown()).unwrap_or_default();
    let change = Change::new(path.clone(), Some(before), after);
    let consent = Consent::of(options.yes);
    let heading = ui::styled(ui::STRONG, &harmless(&format!("To be taken out of {}", path.display())));
    consent
        .show(global.json, &format!("{heading}\n{}\n", harmless(&format!("[mcp.servers.{name}]\n{gone}"))))?;
    consent.can_be_had()?;
    if !consent.is_given(&format!("Remove {name} from {}, with its pins, tokens and log?", path.display())) {
        if global.json {
            return ui::print_json(&json!({"removed": null, "file": ui::path_text(&path), "backup": null}));
        }
        ui::note("nothing is removed");
        return Ok(());
    }
    let backup = change.write(0o600)?;
    if let Some(home) = setup::existing_home()? {
        Pins::new(&home).forget(name)?;
        ServerLogs::new(&home, 0).forget(name)?;
        let of_server = format!("mcp/{name}/");
        Tokens::new(&home).forget(|key| key.starts_with(&of_server))?;
    }
    if global.json {
        let (file, backup) = (ui::path_text(&path), backup.as_deref().map(ui::path_text));
        return ui::print_json(&json!({"removed": name, "file": file, "backup": backup}));
    }
    file::say_written(&path, backup.as_ref());
    ui::note(&harmless(&format!("{name} is removed, and what was kept of it forgotten")));
    Ok(())
}
