//! `helve doctor`: what this machine gives the sandbox, what is missing, and how to mend it.
//!
//! In: the policy and the machine. Out: what `exec` would run in, tried with the policy's own view; then every layer and
//! every sandbox as the probe found them, and how each MCP server and each hook stands. Nothing is recorded, and no server is
//! started.

use std::fmt::Write as _;

use clap::Args as ClapArgs;
use helve::sandbox::{ActFinding, Expected, Findings, Lack, Outcome, SandboxChoice, SandboxFinding, probe};
use helve::store::Home;
use helve::{ConfiguredServer, Hook, Policy, SandboxReport, ToolError, WireError};
use serde_json::{Value, json};

use super::mcp::list;
use super::mcp::standing::{self, Standing};
use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::harmless;
use crate::{setup, ui};

/// Say which sandbox this machine gives, what is missing, and how MCP servers and hooks stand
#[derive(ClapArgs)]
#[command(long_about = "\
Say which sandbox this machine gives, what is missing, and how to mend it.

Nothing is judged by version numbers. A small process of Helve's own tries forbidden acts (reading what is hidden, \
connecting to the machine, signalling other processes, mounting, making namespaces, …) outside, where each has to succeed, \
and in each sandbox, where each has to fail; all that it touches was made for that. Then the empty command is run as \
`exec` would run one, under your policy and in your workspace. Of each MCP server it says how it stands, without starting it \
(`helve mcp list --live` starts them), and of each hook what is wrong with it by its looks. --json prints everything, each act by name. Exit code: 0 \
if exec can run as the policy says, 5 if not, 2 bad usage or configuration.")]
#[command(after_help = "\
Examples:
  helve doctor
  helve doctor --json")]
pub(crate) struct Options {}

/// No sandbox as the policy wants it.
const UNAVAILABLE: u8 = 5;

pub(crate) fn doctor(global: &Global, _options: &Options) -> Result<u8, Failure> {
    let Looked { policy, findings, exec, servers } = look(global, setup::policy(global)?)?;
    let code = if exec.is_ok() { 0 } else { UNAVAILABLE };
    if global.json {
        ui::print_json(&all(&policy, &exec, &findings, &servers))?;
    } else {
        let mut text = told(&policy, &exec, &findings);
        if !servers.is_empty() {
            let _ = writeln!(text, "\n{}", ui::styled(ui::STRONG, "MCP servers"));
        }
        for (server, standing) in &servers {
            list::told(&mut text, "  ", server, standing);
        }
        text.push_str(&hooks_told(policy.hooks()));
        ui::print_styled(&text)?;
    }
    Ok(code)
}

/// Everything that `helve doctor --json` prints.
pub(super) fn findings(global: &Global, policy: Policy) -> Result<Value, Failure> {
    let Looked { policy, findings, exec, servers } = look(global, policy)?;
    Ok(all(&policy, &exec, &findings, &servers))
}

/// What was found.
struct Looked {
    policy: Policy,
    findings: Result<Findings, ToolError>,
    exec: Result<SandboxReport, ToolError>,
    servers: Vec<(ConfiguredServer, Standing)>,
}

fn look(global: &Global, policy: Policy) -> Result<Looked, Failure> {
    // The state directory is not made only to remember the answer.
    let home = Home::default_path()?;
    let findings = probe(home.is_dir().then_some(home.as_path()));
    let exec = try_exec(global, policy.clone())?;
    let servers = policy.mcp_configured();
    let standings = standing::all(&servers)?;
    let servers = servers.into_iter().zip(standings).collect();
    Ok(Looked { policy, findings, exec, servers })
}

fn all(
    policy: &Policy,
    exec: &Result<SandboxReport, ToolError>,
    findings: &Result<Findings, ToolError>,
    servers: &[(ConfiguredServer, Standing)],
) -> Value {
    let mut report = report(policy, exec, findings);
    report["mcp_servers"] =
        servers.iter().map(|(server, standing)| list::as_json(server, standing)).collect();
    report["hooks"] = policy.hooks().iter().map(hook).collect();
    report
}

fn hook(hook: &Hook) -> Value {
    json!({
        "name": hook.name,
        "on": hook.on,
        "tools": hook.tools,
        "program": hook.program,
        "timeout": hook.timeout.as_secs(),
        "origin": hook.origin.to_string(),
        "problem": hook.problem(),
    })
}

/// The hooks, and what is wrong with them by their looks. None is run.
fn hooks_told(hooks: &[Hook]) -> String {
    let mut text = String::new();
    if !hooks.is_empty() {
        let _ = writeln!(text, "\n{}", ui::styled(ui::STRONG, "Hooks"));
    }
    for hook in hooks {
        let on: Vec<&str> = hook.on.iter().map(|event| event.name()).collect();
        let tools = hook.tools.as_ref().map(|tools| format!(" of {}", tools.join(", "))).unwrap_or_default();
        let program = hook.program.join(" ");
        let _ =
            writeln!(text, "  {:20}{}{}: {}", hook.name, on.join(", "), harmless(&tools), harmless(&program));
        if let Some(problem) = hook.problem() {
            let _ = writeln!(text, "{}{}", " ".repeat(22), ui::styled(ui::CAREFUL, &harmless(&problem)));
        }
    }
    text
}

/// Runs the empty command as `exec` would.
fn try_exec(global: &Global, policy: Policy) -> Result<Result<SandboxReport, ToolError>, Failure> {
    let runtime = setup::runtime_with(global, policy)?;
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("the event loop cannot start: {error}")))?;
    Ok(tokio.block_on(runtime.try_sandbox()))
}

/// The policy's choice, by its name in the configuration.
fn chosen(policy: &Policy) -> &'static str {
    match policy.sandbox() {
        SandboxChoice::Auto => "auto",
        SandboxChoice::Native => "native",
        SandboxChoice::Landlock => "landlock",
        SandboxChoice::Bwrap => "bwrap",
        SandboxChoice::Wrapper { .. } => "wrapper",
        SandboxChoice::Container(_) => "container",
        SandboxChoice::None => "none",
    }
}

fn report(
    policy: &Policy,
    exec: &Result<SandboxReport, ToolError>,
    findings: &Result<Findings, ToolError>,
) -> Value {
    let exec = match exec {
        Ok(ran) => json!({"ok": true, "chosen": chosen(policy), "sandbox": ran}),
        Err(error) => json!({"ok": false, "chosen": chosen(policy), "error": WireError::from(error.clone())}),
    };
    let Findings { kernel, user, layers, sandboxes } = match findings {
        Ok(findings) => findings,
        Err(error) => {
            return json!({"exec": exec, "probe": {"ok": false, "error": WireError::from(error.clone())}});
        }
    };
    let layers: Vec<Value> = layers
        .iter()
        .map(|layer| match &layer.state {
            Ok(detail) => json!({"name": layer.name, "works": true, "detail": detail}),
            Err(lack) => json!({"name": layer.name, "works": false, "why": lack.why, "mend": lack.mend}),
        })
        .collect();
    let sandboxes: Vec<Value> = sandboxes.iter().map(sandbox).collect();
    let probe = json!({"ok": true, "layers": layers, "sandboxes": sandboxes});
    json!({"kernel": kernel, "user": user, "exec": exec, "probe": probe})
}

fn sandbox(found: &SandboxFinding) -> Value {
    let acts: Vec<Value> = found
        .acts
        .iter()
        .map(|act| {
            let expected = match act.expected {
                Expected::Refused => json!("refused"),
                Expected::Done => json!("done"),
                Expected::Either => Value::Null,
            };
            json!({
                "name": act.name,
                "about": act.about,
                "expected": expected,
                "outside": outcome(act.outside),
                "inside": outcome(act.inside),
                "tried": act.tried(),
            })
        })
        .collect();
    let mut value = json!({"name": found.name, "holds": found.holds(), "layers": found.layers, "acts": acts});
    if let Some(lack) = &found.lack {
        value["why"] = lack.why.clone().into();
        value["mend"] = lack.mend.clone().into();
        value["passing"] = found.passing.into();
    }
    value
}

fn outcome(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Done => json!("done"),
        Outcome::Refused(errno) => {
            json!(format!("refused: {}", std::io::Error::from_raw_os_error(errno)))
        }
        Outcome::Unknown => Value::Null,
    }
}

fn told(
    policy: &Policy,
    exec: &Result<SandboxReport, ToolError>,
    findings: &Result<Findings, ToolError>,
) -> String {
    let mut text = String::new();
    let chosen = chosen(policy);
    match exec {
        Ok(ran) if ran.backend == "none" => {
            let bare = ui::styled(ui::CAREFUL, "runs bare");
            let _ = writeln!(text, "exec {bare}: the policy says sandbox = \"none\"");
        }
        Ok(ran) => {
            let works = ui::styled(ui::GOOD, "works");
            let layers =
                if ran.layers.is_empty() { "no layers of Helve's own".into() } else { ran.layers.join(", ") };
            let _ = writeln!(
                text,
                "exec {works}: the policy says {chosen}, commands run in {} ({layers})",
                ran.backend
            );
        }
        Err(error) => {
            let refused = ui::styled(ui::BAD, "is refused");
            let _ = writeln!(text, "exec {refused}: the policy says {chosen}. {}", harmless(&error.message));
            mend(&mut text, "  ", error.hint.as_deref().unwrap_or_default());
        }
    }
    let findings = match findings {
        Ok(findings) => findings,
        Err(error) => {
            let _ = writeln!(text, "\n{}", harmless(&error.message));
            mend(&mut text, "  ", error.hint.as_deref().unwrap_or_default());
            return text;
        }
    };
    let heading = format!("Layers (Linux {}, user {})", harmless(&findings.kernel), findings.user);
    let _ = writeln!(text, "\n{}", ui::styled(ui::STRONG, &heading));
    for layer in &findings.layers {
        line(&mut text, layer.name, ("works", "missing"), layer.state.as_deref());
    }
    let _ = writeln!(text, "\n{}", ui::styled(ui::STRONG, "Sandboxes, each held against forbidden acts"));
    for found in &findings.sandboxes {
        let summary = summary(&found.acts);
        let words = ("holds", if found.passing { "unclear" } else { "missing" });
        line(&mut text, found.name, words, found.lack.as_ref().map_or(Ok(summary.as_str()), Err));
    }
    text
}

/// How many acts were refused, what could not be tried, and what is open by design.
fn summary(acts: &[ActFinding]) -> String {
    let list = |wanted: fn(&ActFinding) -> bool| {
        let list: Vec<&str> = acts.iter().filter(|act| wanted(act)).map(|act| act.about).collect();
        list.join(", ")
    };
    let refused = acts.iter().filter(|act| act.expected != Expected::Done && act.refused()).count();
    let untried = list(|act| act.expected == Expected::Refused && !act.tried());
    let open = list(|act| act.expected == Expected::Either && act.inside == Outcome::Done);
    let mut text = format!("{refused} acts refused that succeed outside");
    if !untried.is_empty() {
        let _ = write!(text, "; could not be tried, because it fails outside too: {untried}");
    }
    if !open.is_empty() {
        let _ = write!(text, "; it does not keep a process from: {open}");
    }
    text
}

fn line(text: &mut String, name: &str, (good, bad): (&str, &str), state: Result<&str, &Lack>) {
    match state {
        Ok(detail) => {
            let detail = harmless(detail);
            let _ = writeln!(text, "  {name:20}{}  {detail}", ui::styled(ui::GOOD, &format!("{good:7}")));
        }
        Err(lack) => {
            let why = harmless(&lack.why);
            let _ = writeln!(text, "  {name:20}{}  {why}", ui::styled(ui::CAREFUL, bad));
            mend(text, &" ".repeat(31), &lack.mend);
        }
    }
}

/// What to do, one line below another.
fn mend(text: &mut String, indent: &str, mend: &str) {
    for line in mend.lines().filter(|line| !line.is_empty()) {
        let _ = writeln!(text, "{indent}{}", harmless(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_outside_too_is_not_counted_as_refused() {
        let refused = Outcome::Refused(1);
        let act =
            |about, expected, outside, inside| ActFinding { name: "x", about, expected, outside, inside };
        let acts = [
            act("write", Expected::Done, Outcome::Done, Outcome::Done),
            act("read", Expected::Refused, Outcome::Done, refused),
            act("call", Expected::Refused, refused, refused),
            act("look", Expected::Either, Outcome::Done, Outcome::Done),
        ];
        assert_eq!(
            summary(&acts),
            "1 acts refused that succeed outside; could not be tried, because it fails outside too: call; it does not keep \
             a process from: look"
        );
        let found = SandboxFinding {
            name: "native",
            layers: Vec::new(),
            acts: acts.to_vec(),
            lack: None,
            passing: false,
        };
        let tried: Vec<Value> = (0..4).map(|at| sandbox(&found)["acts"][at]["tried"].clone()).collect();
        assert_eq!(tried, [json!(true), json!(true), json!(false), json!(true)]);
    }
}
