//! `helve tools`: which tools there are, for people, programs, model APIs, and the model itself.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args as ClapArgs, ValueEnum};
use helve::export::{self, export};
use helve::mcp::lane;
use helve::{ApprovalNeed, Quarantined, Runtime, ToolSpec};
use serde_json::{Value, json};

use super::call::OF_SERVERS;
use super::mcp::live;
use crate::args::{Global, Names};
use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::{setup, ui};

/// List the tools, or show one
#[derive(ClapArgs)]
#[command(long_about = "\
List the tools that the configuration enables, or show one with its parameters.

--format prints the declarations in the shape that a model API wants, --dialect with the names and parameters that another agent \
has for the tools; those that it does not have keep their own. --servers adds the tools of the configured MCP servers, as \
they are on record: none is started for it, `helve mcp test NAME` does that. --manual prints a TOOLS.md that teaches a model to \
plan work with the tools; with a file name it writes the file.")]
#[command(after_help = "\
Examples:
  helve tools
  helve tools exec
  helve tools --servers
  helve tools --format anthropic > tools.json
  helve tools --manual TOOLS.md
  helve tools --dialect claude --format anthropic")]
pub(crate) struct Options {
    /// Show only this tool
    name: Option<String>,
    /// Also the tools of the configured MCP servers, as far as they are on record
    #[arg(long)]
    servers: bool,
    /// Print declarations for a model API, as a JSON array
    #[arg(long, value_enum, conflicts_with = "manual")]
    format: Option<Format>,
    /// Print the manual for a model, or write it to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with = "name")]
    manual: Option<Option<PathBuf>>,
    #[command(flatten)]
    names: Names,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Openai,
    Anthropic,
    Gemini,
    Mcp,
}

impl From<Format> for export::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Openai => export::Format::OpenAi,
            Format::Anthropic => export::Format::Anthropic,
            Format::Gemini => export::Format::Gemini,
            Format::Mcp => export::Format::Mcp,
        }
    }
}

pub(crate) fn tools(global: &Global, options: &Options) -> Result<u8, Failure> {
    let runtime = setup::runtime_speaking(global, options.names.dialect())?;
    let of_server = options.name.as_ref().is_some_and(|name| name.starts_with(OF_SERVERS));
    if options.servers || of_server {
        add_servers(global, &runtime)?;
    }
    if let Some(file) = &options.manual {
        write_manual(&runtime, file.as_deref(), global.json)?;
        return Ok(0);
    }
    let specs = chosen(&runtime, options.name.as_deref())?;
    if let Some(format) = options.format {
        let declarations: Vec<Value> = specs.iter().map(|spec| export(spec, format.into())).collect();
        ui::print_json(&declarations)?;
    } else if global.json {
        let tools: Vec<Value> = specs.iter().map(|spec| declaration(spec)).collect();
        let quarantined: Vec<Value> = runtime
            .quarantined()
            .iter()
            .map(|tool| json!({"name": tool.name, "reasons": tool.reasons}))
            .collect();
        ui::print_json(&json!({"tools": tools, "quarantined": quarantined}))?;
    } else if options.name.is_some() {
        for spec in specs {
            ui::print_styled(&describe(&spec))?;
        }
    } else {
        ui::print_styled(&table(&specs, &runtime.quarantined()))?;
    }
    Ok(0)
}

/// Adds what is on record of the servers' tools, and says of which there is nothing.
fn add_servers(global: &Global, runtime: &Runtime) -> Result<(), Failure> {
    let Some(fleet) = setup::fleet(global, runtime.policy())? else { return Ok(()) };
    live::block_on(lane::recall(&fleet, runtime))?;
    for server in fleet.states().iter().filter(|server| server.tools == (0, 0)) {
        let name = &server.name;
        ui::note(&format!("nothing is on record of the tools of {name}: `helve mcp test {name}` starts it"));
    }
    Ok(())
}

fn write_manual(runtime: &Runtime, file: Option<&Path>, json: bool) -> Result<(), Failure> {
    let text = helve::manual(runtime.specs(), runtime.policy());
    let Some(path) = file else {
        return if json { ui::print_json(&json!({"manual": text})) } else { ui::print(&text) };
    };
    std::fs::write(path, text)
        .map_err(|error| Failure::usage(format!("the file {} cannot be written: {error}", path.display())))?;
    if json { ui::print_json(&json!({"file": ui::path_text(path)})) } else { Ok(()) }
}

/// All specs, or the one that has this name or alias.
fn chosen(runtime: &Runtime, name: Option<&str>) -> Result<Vec<Arc<ToolSpec>>, Failure> {
    let all: Vec<Arc<ToolSpec>> = runtime.specs().collect();
    let Some(name) = name else { return Ok(all) };
    let found = all.iter().find(|spec| spec.name == name || spec.aliases.iter().any(|alias| alias == name));
    found.map(|spec| vec![Arc::clone(spec)]).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|spec| spec.name.as_str()).collect();
        Failure::usage(format!("there is no tool {name:?}. There are: {}", names.join(", ")))
    })
}

/// The whole declaration, for programs.
fn declaration(spec: &ToolSpec) -> Value {
    json!({
        "name": spec.name,
        "aliases": spec.aliases,
        "description": spec.description,
        "parameters": spec.parameters,
        "output_schema": spec.output_schema,
        "read_only": spec.read_only,
        "exclusive": spec.exclusive,
        "concurrency_safe": spec.is_concurrency_safe(),
        "lane": spec.lane,
        "approval": spec.approval,
        "rate_limit": spec.rate_limit,
        "timeout_s": spec.timeout.map(|timeout| timeout.as_secs()),
        "sensitive": spec.sensitive,
        "origin": spec.origin.as_ref().map(|origin| json!({"server": origin.server, "tool": origin.tool})),
    })
}

fn table(specs: &[Arc<ToolSpec>], quarantined: &[Quarantined]) -> String {
    let mut text = String::new();
    let names = specs.iter().map(|spec| spec.name.chars().count()).max().unwrap_or(0);
    let traits: Vec<String> = specs.iter().map(|spec| traits(spec)).collect();
    let widest = traits.iter().map(|traits| traits.chars().count()).max().unwrap_or(0);
    let room = ui::columns().unwrap_or(120).saturating_sub(names + widest + 4).max(20);
    for (spec, traits) in specs.iter().zip(&traits) {
        let name = ui::styled(ui::STRONG, &format!("{:names$}", spec.name));
        let _ = writeln!(text, "{name}  {traits:widest$}  {}", one_line(&spec.description, room));
    }
    for tool in quarantined {
        let _ = writeln!(text, "{}  {}", harmless(&tool.name), ui::styled(ui::BAD, "quarantined:"));
        for reason in &tool.reasons {
            let _ = writeln!(text, "  {}", harmless(reason));
        }
    }
    text
}

fn traits(spec: &ToolSpec) -> String {
    let mut words = vec![spec.lane.name()];
    words.push(if spec.read_only { "read-only" } else { "writes" });
    if spec.exclusive {
        words.push("alone");
    }
    match spec.approval {
        ApprovalNeed::Never => {}
        ApprovalNeed::UnlessAutoApproved => words.push("may ask"),
        ApprovalNeed::Always => words.push("asks"),
    }
    words.join(", ")
}

/// One tool with everything that a person wants to know before calling it.
fn describe(spec: &ToolSpec) -> String {
    let mut text = format!("{}  {}\n", ui::styled(ui::STRONG, &spec.name), traits(spec));
    if !spec.aliases.is_empty() {
        let _ = writeln!(text, "also called: {}", spec.aliases.join(", "));
    }
    if let Some(origin) = &spec.origin {
        let (server, tool) = (harmless(&origin.server), harmless(&origin.tool));
        let _ = writeln!(text, "of the MCP server {server}, which calls it {tool}");
    }
    if let Some(rate) = spec.rate_limit {
        let _ = writeln!(text, "at most {} calls a minute and {} an hour", rate.per_minute, rate.per_hour);
    }
    let _ = writeln!(text, "\n{}\n", harmless(&spec.description));
    let required = spec.parameters["required"].as_array();
    for (name, property) in spec.parameters["properties"].as_object().into_iter().flatten() {
        let needed = required.is_some_and(|names| names.iter().any(|required| required == name));
        let mark = if needed { " (required)" } else { "" };
        let _ = writeln!(text, "  {}{mark}", ui::styled(ui::STRONG, &harmless(name)));
        if let Some(meaning) = property["description"].as_str() {
            let _ = writeln!(text, "      {}", one_line(meaning, 1000));
        }
        let _ = writeln!(text, "      {}", harmless(&constraints(property)));
    }
    text
}

/// What the schema says of a parameter besides its description.
fn constraints(property: &Value) -> String {
    let mut rest = property.clone();
    if let Some(members) = rest.as_object_mut() {
        members.shift_remove("description");
    }
    rest.to_string()
}
