//! `helve mcp install`: gives other programs Helve's tools, by writing their configuration. The change is shown first, what
//! was there is kept, and a file that cannot be read is left alone.

mod clients;
mod json_text;

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};

use self::clients::{CLIENTS, Client, Form, Scope};
use super::file::{self, Change, Consent};
use crate::args::Global;
use crate::commands::diff;
use crate::failure::Failure;
use crate::harmless::harmless;
use crate::{setup, ui};

#[derive(ClapArgs)]
pub(super) struct Options {
    /// The program
    #[arg(value_name = "CLIENT", required = true, value_parser = PossibleValuesParser::new(CLIENTS.iter().map(|client| client.name)))]
    clients: Vec<String>,
    /// Write the configuration of the project, which lies in the workspace
    #[arg(long, conflicts_with = "user")]
    project: bool,
    /// Write your own configuration, which holds for every project
    #[arg(long)]
    user: bool,
    /// Only show what would be written
    #[arg(long)]
    print: bool,
    /// What the server is to be called there
    #[arg(long, value_name = "NAME", default_value = "helve")]
    name: String,
    /// The names of tools that the program is offered
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(helve::DIALECTS))]
    dialect: Option<String>,
    /// The policy profile that holds for the program
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Offer the tools of the configured MCP servers instead of Helve's own
    #[arg(long)]
    gateway: bool,
    /// Offer Helve's own tools beside those of the servers
    #[arg(long, requires = "gateway")]
    with_own: bool,
    /// Write without a question
    #[arg(long)]
    yes: bool,
}

pub(super) fn install(global: &Global, options: &Options) -> Result<(), Failure> {
    let mut reports = Vec::new();
    for name in &options.clients {
        if let Some(client) = CLIENTS.iter().find(|client| client.name == name) {
            reports.push(one(global, options, client)?);
        }
    }
    if global.json { ui::print_json(&reports) } else { Ok(()) }
}

fn one(global: &Global, options: &Options, client: &Client) -> Result<Value, Failure> {
    let project = setup::workspace(global)?;
    let scope = match (options.user, options.project) {
        (true, _) => Scope::User,
        (_, true) => Scope::Project,
        _ => client.usual,
    };
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let path = client.file(scope, &project, variable).ok_or_else(|| {
        Failure::usage(match scope {
            Scope::Project => {
                format!("{} has no configuration of a project; leave --project out", client.title)
            }
            Scope::User => "there is no home directory: set HOME".to_owned(),
        })
    })?;
    let entry = entry(global, options, client, scope, &project)?;
    let before = file::read(&path)?;
    let cannot = |why: String| {
        let wanted = snippet(client, &options.name, &entry);
        Failure::usage(format!("{} is left alone: {why}. To be added:\n\n{wanted}", path.display()))
    };
    let after =
        changed(client, &options.name, before.as_deref().unwrap_or_default(), &entry).map_err(cannot)?;
    let change = Change { path, before, after };
    let mut report = json!({
        "client": client.name, "file": change.path, "name": options.name, "entry": entry, "changed": false,
    });
    if options.print {
        if !global.json {
            ui::note(&harmless(&format!("{} reads {}", client.title, change.path.display())));
            ui::print(&snippet(client, &options.name, &entry))?;
        }
        return Ok(report);
    }
    if !change.is_needed() {
        if !global.json {
            ui::note(&harmless(&format!("{} has Helve already, in {}", client.title, change.path.display())));
        }
        return Ok(report);
    }
    if !global.json {
        ui::print_styled(&diff::lines(&change.diff()))?;
    }
    let consent = Consent::of(options.yes);
    consent.can_be_had()?;
    if !consent.is_given(&format!("Write {}?", change.path.display())) {
        ui::note("nothing is written");
        return Ok(report);
    }
    // What programs keep there may be secret; what lies in a project is for all.
    let backup = change.write(if scope == Scope::Project { 0o644 } else { 0o600 })?;
    report["changed"] = true.into();
    report["backup"] = json!(backup);
    report["diff"] = change.diff().into();
    if !global.json {
        file::say_written(&change.path, backup.as_ref());
        ui::note(&format!("start {} anew and it has Helve's tools", client.title));
    }
    Ok(report)
}

/// The server as the program starts it.
fn entry(
    global: &Global,
    options: &Options,
    client: &Client,
    scope: Scope,
    project: &Path,
) -> Result<Value, Failure> {
    let mut args = vec!["mcp".to_owned()];
    let given = global.workspace.as_ref().filter(|_| scope == Scope::User);
    let workspace = match given {
        Some(_) => Some(project.display().to_string()),
        None => client.workspace(scope, project),
    };
    let mut option = |name: &str, value: String| args.extend([name.to_owned(), value]);
    if let Some(workspace) = workspace {
        option("--workspace", workspace);
    }
    if let Some(file) = &global.config {
        let file =
            file.canonicalize().map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
        option("--config", file.display().to_string());
    }
    for set in &global.set {
        option("--set", set.clone());
    }
    if let Some(session) = &global.session {
        option("--session", session.clone());
    }
    if let Some(dialect) = &options.dialect {
        option("--dialect", dialect.clone());
    }
    if let Some(profile) = &options.profile {
        option("--profile", profile.clone());
    }
    for (is_given, word) in [(options.gateway, "--gateway"), (options.with_own, "--with-own")] {
        args.extend(is_given.then(|| word.to_owned()));
    }
    // A program that does not inherit this environment would keep its journal elsewhere.
    let state =
        std::env::var("HELVE_HOME").ok().filter(|home| scope == Scope::User && Path::new(home).is_absolute());
    let env: Vec<(String, String)> = state.map(|home| ("HELVE_HOME".to_owned(), home)).into_iter().collect();
    Ok(client.entry(&program(scope)?, &args, &env))
}

/// The program: by its whole path, because programs with windows have another PATH; in a project's file, which others
/// read too, by its name where that finds it.
fn program(scope: Scope) -> Result<String, Failure> {
    let own = std::env::current_exe().and_then(|path| path.canonicalize());
    let own =
        own.map_err(|error| Failure::internal(format!("where this program is cannot be told: {error}")))?;
    let on_path = std::env::var_os("PATH").and_then(|path| {
        std::env::split_paths(&path).map(|dir| dir.join("helve")).find(|file| file.is_file())
    });
    if scope == Scope::Project && on_path.and_then(|file| file.canonicalize().ok()).as_ref() == Some(&own) {
        return Ok("helve".to_owned());
    }
    own.into_os_string()
        .into_string()
        .map_err(|_| Failure::usage("the path of this program is not valid UTF-8"))
}

/// The text of the file with the server in it.
fn changed(client: &Client, name: &str, before: &str, entry: &Value) -> Result<String, String> {
    match client.form {
        Form::Json(key) => json_text::set_member(before, &[key, name], entry),
        Form::Toml(key) => helve::text::set_table(before, &[key, name], &toml_lines(entry)),
    }
}

/// The server by itself, in the form of the file.
fn snippet(client: &Client, name: &str, entry: &Value) -> String {
    changed(client, name, "", entry).unwrap_or_default()
}

fn toml_lines(entry: &Value) -> String {
    let members = entry.as_object().into_iter().flatten();
    members.map(|(key, value)| format!("{key} = {}\n", helve::text::toml_value(value))).collect()
}
