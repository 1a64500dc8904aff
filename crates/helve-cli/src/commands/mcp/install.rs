//! `helve mcp install`: gives other programs Helve's tools, by writing their configuration. The change is shown first, what
//! was there is kept, and a file that cannot be read is left alone.

mod clients;
mod json_text;

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use helve::store::Home;
use serde_json::{Value, json};

use self::clients::{CLIENTS, Client, Form, Scope};
use super::config;
use super::file::{self, Change, Consent};
use crate::args::Global;
use crate::commands::diff;
use crate::failure::Failure;
use crate::harmless::harmless;
use crate::{setup, ui};

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  helve mcp install claude
  helve mcp install codex cursor --yes
  helve mcp install vscode --print
  helve mcp install claude --gateway --with-own")]
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
    /// Only print the entry, and write nothing
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
    config::check_name(&options.name)?;
    // What would not start is not written.
    let profile = options.profile.iter().map(|profile| format!("profile={profile}"));
    setup::policy_with(global, profile.collect())?;
    let wanted = CLIENTS.iter().filter(|client| options.clients.iter().any(|name| name == client.name));
    let targets: Vec<Target> =
        wanted.map(|client| Target::new(global, options, client)).collect::<Result<_, Failure>>()?;
    if options.print {
        for target in targets.iter().filter(|_| !global.json) {
            let (title, path) = (target.client.title, target.path.display());
            ui::note(&harmless(&format!("{title} reads {path}")));
            ui::print(&target.snippet(options))?;
        }
        return told(global, &targets.iter().map(|target| target.report(options)).collect::<Vec<_>>());
    }
    // All of them before the first is written, so that none is if one of them cannot be.
    let plans: Vec<Plan> =
        targets.into_iter().map(|target| Plan::new(options, target)).collect::<Result<_, Failure>>()?;
    let consent = Consent::of(options.yes);
    for plan in plans.iter().filter(|plan| plan.change.is_needed()) {
        consent.show(global.json, &plan.shown(options))?;
    }
    if plans.iter().any(|plan| plan.change.is_needed()) {
        consent.can_be_had()?;
    }
    let mut reports = Vec::new();
    for plan in &plans {
        match plan.carry_out(global, options, consent) {
            Ok(report) => reports.push(report),
            Err(failure) if reports.is_empty() => return Err(failure),
            // What was written before is told all the same.
            Err(failure) => {
                told(global, &reports)?;
                return Err(failure);
            }
        }
    }
    told(global, &reports)
}

/// What became of each program.
fn told(global: &Global, reports: &[Value]) -> Result<(), Failure> {
    if global.json { ui::print_json(&reports) } else { Ok(()) }
}

/// Where Helve's entry goes for one program, and how it reads.
struct Target {
    client: &'static Client,
    scope: Scope,
    path: PathBuf,
    /// The directory of the project, by its real path.
    project: PathBuf,
    entry: Value,
}

impl Target {
    fn new(global: &Global, options: &Options, client: &'static Client) -> Result<Target, Failure> {
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
        if scope == Scope::User && global.workspace.is_none() && client.workspace(scope, &project).is_some() {
            ui::note(&harmless(&format!(
                "{} does not say which project it is about: there Helve always works in {}; --workspace DIR names another",
                client.title,
                project.display()
            )));
        }
        Ok(Target { client, scope, path, project, entry })
    }

    /// Where its file really is. A repository comes from elsewhere: its links do not lead out of it.
    fn real(&self) -> Result<PathBuf, Failure> {
        let real = file::real(&self.path)?;
        if self.scope == Scope::User || real.starts_with(&self.project) {
            return Ok(real);
        }
        Err(Failure::usage(format!(
            "{} is a link that leads to {}, outside the workspace; remove the link, or use --user",
            self.path.display(),
            real.display()
        )))
    }

    /// The entry by itself, in the form of the file.
    fn snippet(&self, options: &Options) -> String {
        changed(self.client, &options.name, "", &self.entry).unwrap_or_default()
    }

    fn report(&self, options: &Options) -> Value {
        json!({
            "client": self.client.name, "file": ui::path_text(&self.path), "name": options.name, "entry": self.entry,
            "changed": false,
        })
    }
}

/// What is to be written for one program.
struct Plan {
    target: Target,
    change: Change,
}

impl Plan {
    fn new(options: &Options, target: Target) -> Result<Plan, Failure> {
        let path = target.real()?;
        let before = file::read(&path)?;
        let cannot = |why: String| {
            let wanted = target.snippet(options);
            Failure::usage(format!("{} is left alone: {why}. To be added:\n\n{wanted}", path.display()))
        };
        let text = before.as_deref().unwrap_or_default();
        let after = changed(target.client, &options.name, text, &target.entry).map_err(cannot)?;
        Ok(Plan { change: Change::new(path, before, after), target })
    }

    /// The change, for whoever is to agree.
    fn shown(&self, options: &Options) -> String {
        match self.change.diff() {
            Some(text) => diff::lines(&text),
            None => {
                let heading = format!("To be added to {}", self.change.path.display());
                let wanted = self.target.snippet(options);
                format!("{}\n{}", ui::styled(ui::STRONG, &harmless(&heading)), harmless(&wanted))
            }
        }
    }

    /// Writes it, if the owner agrees.
    fn carry_out(&self, global: &Global, options: &Options, consent: Consent) -> Result<Value, Failure> {
        let Plan { target: target @ Target { client, scope, .. }, change } = self;
        let mut report = target.report(options);
        if !change.is_needed() {
            if !global.json {
                let path = change.path.display();
                ui::note(&harmless(&format!("{} has Helve already, in {path}", client.title)));
            }
            return Ok(report);
        }
        if !consent.is_given(&format!("Write {}?", change.path.display())) {
            ui::note("nothing is written");
            return Ok(report);
        }
        // What programs keep there may be secret; what lies in a project is for all.
        let backup = change.write(if *scope == Scope::Project { 0o644 } else { 0o600 })?;
        report["changed"] = true.into();
        report["file"] = ui::path_text(&change.path).into();
        report["backup"] = backup.as_deref().map(ui::path_text).into();
        report["diff"] = json!(change.diff());
        if !global.json {
            file::say_written(&change.path, backup.as_ref());
            ui::note(&format!("start {} anew and it has Helve's tools", client.title));
        }
        Ok(report)
    }
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
    // Where there is no place for the state there is none for the program either.
    Home::default_path()?;
    // A program that does not inherit this environment would keep its journal elsewhere, and find another configuration or none.
    let variable = |name: &'static str| {
        let value = std::env::var(name).ok().filter(|value| Path::new(value).is_absolute());
        Some((name.to_owned(), value.filter(|_| scope == Scope::User)?))
    };
    let state = variable("HELVE_HOME").or_else(|| variable("XDG_STATE_HOME"));
    let configuration = variable("XDG_CONFIG_HOME").filter(|_| global.config.is_none());
    let env: Vec<(String, String)> = state.into_iter().chain(configuration).collect();
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

fn toml_lines(entry: &Value) -> String {
    let members = entry.as_object().into_iter().flatten();
    members.map(|(key, value)| format!("{key} = {}\n", helve::text::toml_value(value))).collect()
}
