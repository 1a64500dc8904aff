//! `helve mcp add`: puts MCP servers into the user's configuration, from the command line or from another program's file.
//! Shown first; nothing is started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use helve::store::Home;
use helve::text::{ServerDraft, import_servers, set_table};
use helve::{Policy, Sources};
use serde_json::{Map, Value, json};

use super::config;
use super::file::{self, Change, Consent};
use crate::args::Global;
use crate::commands::diff;
use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::{setup, ui};

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  helve mcp add time -- mcp-server-time
  helve mcp add git --read ~/src -- mcp-server-git --repository ~/src/app
  helve mcp add docs --url https://example.com/mcp --bearer-env DOCS_TOKEN
  helve mcp add --from .mcp.json")]
pub(super) struct Options {
    /// What the server is to be called; with --from, the servers to take [default: all]
    #[arg(value_name = "NAME", required_unless_present = "from")]
    names: Vec<String>,
    /// The program of the server and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["url", "from"])]
    command: Vec<String>,
    /// The address of a server elsewhere
    #[arg(long, value_name = "URL", conflicts_with = "from")]
    url: Option<String>,
    /// Take servers from a file of another program: .mcp.json, claude_desktop_config.json, .vscode/mcp.json, config.toml of Codex, …
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The address speaks the older HTTP with SSE
    #[arg(long, requires = "url")]
    sse: bool,
    /// A variable that the server gets; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// A variable of Helve's own environment that the server gets; can be repeated
    #[arg(long, value_name = "NAME")]
    pass_env: Vec<String>,
    /// A header of every request, its value from a variable of Helve's own environment; can be repeated
    #[arg(long, value_name = "HEADER=VARIABLE", value_parser = pair)]
    header_env: Vec<(String, String)>,
    /// The variable that holds a bearer token for the server
    #[arg(long, value_name = "NAME")]
    bearer_env: Option<String>,
    /// A directory that the server may read; can be repeated
    #[arg(long, value_name = "DIR")]
    read: Vec<PathBuf>,
    /// A directory that the server may change; can be repeated
    #[arg(long, value_name = "DIR")]
    write: Vec<PathBuf>,
    /// What the server may do with the workspace [default: read]
    #[arg(long, value_name = "USE", value_parser = PossibleValuesParser::new(["hidden", "read", "write"]))]
    workspace_use: Option<String>,
    /// Let the server reach the network
    #[arg(long)]
    network: bool,
    /// Vouch for what the server says of its tools
    #[arg(long)]
    trusted: bool,
    /// Put it in place of a server of the same name
    #[arg(long)]
    replace: bool,
    /// Write without a question
    #[arg(long)]
    yes: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn add(global: &Global, options: &Options) -> Result<(), Failure> {
    let mut drafts = match &options.from {
        Some(file) => from_file(options, file)?,
        None => vec![from_words(options)?],
    };
    let seen = shown_to_all(global)?;
    drafts.iter_mut().for_each(|draft| note_unseen(draft, &seen));
    let path = file::real(&config::user_file(global)?)?;
    let before = file::read(&path)?;
    let mut after = before.clone().unwrap_or_default();
    let mut text =
        format!("{}\n", ui::styled(ui::STRONG, &harmless(&format!("To be written to {}", path.display()))));
    for draft in &drafts {
        let old = config::draft(&path, &after, &draft.name)?;
        if old.is_some() && !options.replace {
            return Err(Failure::usage(format!(
                "{} has a server {} already; --replace puts the new one in its place",
                path.display(),
                draft.name
            )));
        }
        after = set_table(&after, &["mcp", "servers", &draft.name], &draft.toml()).map_err(|why| {
            Failure::usage(format!(
                "{} cannot be changed: {why}. To be added:\n\n{}",
                path.display(),
                shown(draft)
            ))
        })?;
        text.push_str(&difference(old.as_ref(), draft));
        text.push('\n');
    }
    config::check(global, &after)?;
    let change = Change::new(path, before, after);
    if !change.is_needed() {
        return is_there_already(global, &change.path);
    }
    let consent = Consent::of(options.yes);
    consent.show(global.json, &text)?;
    if !global.json || consent == Consent::Ask {
        for draft in &drafts {
            for note in &draft.notes {
                ui::note(&harmless(&format!("{}: {note}", draft.name)));
            }
        }
    }
    consent.can_be_had()?;
    let is_agreed = consent.is_given("Write this?");
    let backup = if is_agreed { change.write(0o600)? } else { None };
    if global.json {
        let added: Vec<Value> = drafts
            .iter()
            .map(|draft| json!({"name": draft.name, "shown": draft.shown(), "notes": draft.notes}))
            .collect();
        return ui::print_json(&json!({
            "file": ui::path_text(&change.path), "written": is_agreed,
            "backup": backup.as_deref().map(ui::path_text), "added": added,
        }));
    }
    if !is_agreed {
        ui::note("nothing is written");
        return Ok(());
    }
    file::say_written(&change.path, backup.as_ref());
    let names: Vec<&str> = drafts.iter().map(|draft| draft.name.as_str()).collect();
    ui::note(&format!("`helve mcp test {}` starts it and shows its tools", names.first().unwrap_or(&"NAME")));
    Ok(())
}

/// What to add stands in the file, so that nothing is written and nothing has to be kept.
fn is_there_already(global: &Global, path: &Path) -> Result<(), Failure> {
    if global.json {
        let file = ui::path_text(path);
        return ui::print_json(&json!({"file": file, "written": false, "backup": null, "added": []}));
    }
    ui::note(&harmless(&format!("{} says this already; nothing is written", path.display())));
    Ok(())
}

/// What every server sees.
fn shown_to_all(global: &Global) -> Result<Vec<PathBuf>, Failure> {
    // The file may be one that is to be made.
    let sources = Sources { user_required: false, ..setup::all_sources(global)? };
    let policy = Policy::load(&sources).map_err(|error| Failure::usage(error.to_string()))?;
    let view = policy.view(&setup::workspace(global)?, &Home::default_path()?);
    Ok(view.read_only.into_iter().chain(view.read_write).collect())
}

/// Notes files that a server is told of and does not see: to it they are not there.
fn note_unseen(draft: &mut ServerDraft, shown: &[PathBuf]) {
    let list = |key: &str| draft.settings.get(key).and_then(Value::as_array).into_iter().flatten();
    let opened: Vec<&Path> =
        list("read").chain(list("write")).filter_map(Value::as_str).map(Path::new).collect();
    let words = draft.settings.get("command").into_iter().chain(list("args")).filter_map(Value::as_str);
    let unseen = words.filter(|word| {
        let real = Path::new(word).canonicalize().ok().filter(|_| word.starts_with('/'));
        let sees = |real: &Path| {
            shown.iter().any(|dir| real.starts_with(dir)) || opened.iter().any(|dir| real.starts_with(dir))
        };
        real.is_some_and(|real| !sees(&real))
    });
    let note = |word: &str| {
        let dir = Path::new(word).parent().unwrap_or(Path::new("/")).display();
        format!("it does not see {word}; --read {dir} shows it that")
    };
    let notes: Vec<String> = unseen.map(note).collect();
    draft.notes.extend(notes);
}

/// What becomes of a server in the file: all of one that is new, else what changes.
fn difference(old: Option<&ServerDraft>, new: &ServerDraft) -> String {
    let (before, after) = (old.map(shown), shown(new));
    let name = format!("mcp.servers.{}", new.name);
    match before.and_then(|before| helve::unified_diff(&name, before.as_bytes(), after.as_bytes())) {
        Some(changes) => diff::lines(&changes),
        None => harmless(&after),
    }
}

/// A server as it will stand in the file, without the values of variables and headers.
fn shown(draft: &ServerDraft) -> String {
    format!("[mcp.servers.{}]\n{}", draft.name, draft.shown())
}

/// The server that the command line describes.
fn from_words(options: &Options) -> Result<ServerDraft, Failure> {
    let [name] = options.names.as_slice() else {
        return Err(Failure::usage(
            "name one server; its program comes behind --: helve mcp add NAME -- COMMAND",
        ));
    };
    config::check_name(name)?;
    let mut settings = Map::new();
    match (options.command.split_first(), &options.url) {
        (Some((command, args)), None) => {
            settings.insert("command".into(), command.as_str().into());
            if !args.is_empty() {
                settings.insert("args".into(), args.to_vec().into());
            }
        }
        (None, Some(url)) => {
            settings.insert("url".into(), url.as_str().into());
        }
        _ => {
            return Err(Failure::usage(
                "say how the server is reached: helve mcp add NAME -- COMMAND, or helve mcp add NAME --url URL",
            ));
        }
    }
    let mut draft = ServerDraft { name: name.clone(), settings, notes: Vec::new() };
    opened(options, &mut draft)?;
    Ok(draft)
}

/// What the options open for a server, on top of what it has.
fn opened(options: &Options, draft: &mut ServerDraft) -> Result<(), Failure> {
    let settings = &mut draft.settings;
    let table = |pairs: &[(String, String)]| -> Value {
        let pairs: BTreeMap<&str, &str> =
            pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        json!(pairs)
    };
    if !options.env.is_empty() {
        settings.insert("env".into(), table(&options.env));
    }
    if !options.pass_env.is_empty() {
        settings.insert("pass_env".into(), options.pass_env.clone().into());
    }
    if !options.header_env.is_empty() {
        settings.insert("headers_from_env".into(), table(&options.header_env));
    }
    if let Some(name) = &options.bearer_env {
        settings.insert("bearer_token_env".into(), name.as_str().into());
    }
    for (key, dirs) in [("read", &options.read), ("write", &options.write)] {
        if !dirs.is_empty() {
            let dirs: Result<Vec<Value>, Failure> = dirs.iter().map(|dir| absolute(dir)).collect();
            settings.insert(key.into(), Value::Array(dirs?));
        }
    }
    if let Some(word) = &options.workspace_use {
        settings.insert("workspace".into(), word.as_str().into());
    }
    if options.network {
        settings.insert("network".into(), "host".into());
    }
    if options.sse {
        settings.insert("transport".into(), "sse".into());
    }
    if options.trusted {
        settings.insert("trusted".into(), true.into());
    }
    Ok(())
}

fn absolute(dir: &Path) -> Result<Value, Failure> {
    let full = dir.canonicalize().map_err(|error| Failure::usage(format!("{}: {error}", dir.display())))?;
    match full.to_str() {
        Some(text) => Ok(text.into()),
        None => Err(Failure::usage(format!("{} is not valid UTF-8", dir.display()))),
    }
}

/// The servers of another program's file that were named, or all.
fn from_file(options: &Options, path: &Path) -> Result<Vec<ServerDraft>, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = file::read(path)?.ok_or_else(|| wrong("there is no such file".to_owned()))?;
    let found = import_servers(&text).map_err(wrong)?;
    let wanted = |name: &String| options.names.is_empty() || options.names.contains(name);
    if let Some(missing) = options.names.iter().find(|name| found.iter().all(|(known, _)| known != *name)) {
        let known: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        return Err(wrong(format!("there is no server {missing:?} in it; it has {}", known.join(", "))));
    }
    let mut drafts: Vec<ServerDraft> = Vec::new();
    for (name, draft) in found.into_iter().filter(|(name, _)| wanted(name)) {
        let draft = match draft {
            Ok(mut draft) => {
                opened(options, &mut draft)?;
                let twin = drafts.iter().find(|other| other.name == draft.name);
                match twin {
                    Some(_) => Err(format!("another one of the file is called {} here too", draft.name)),
                    None => config::check_draft(&draft).map(|()| draft),
                }
            }
            Err(why) => Err(why),
        };
        match draft {
            Ok(mut draft) => {
                if draft.settings.contains_key("command") && !options.network {
                    draft.notes.push("it has no network; --network opens it".to_owned());
                }
                drafts.push(draft);
            }
            Err(why) if options.names.is_empty() => {
                ui::note(&harmless(&format!("{} is left out: {why}", one_line(&name, 80))));
            }
            Err(why) => return Err(wrong(format!("{} cannot be taken over: {why}", one_line(&name, 80)))),
        }
    }
    if drafts.is_empty() {
        return Err(wrong("there is no server in it that could be taken over".to_owned()));
    }
    Ok(drafts)
}
