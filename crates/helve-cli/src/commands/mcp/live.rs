//! Servers that are started for the owner to look at: what each says, in which sandbox, and how its tools stand.

use std::fmt::Write as _;
use std::future::Future;
use std::sync::Arc;

use helve::mcp::{Era, Fleet, Owner, ServerLook, Standing, ToolLook};
use helve::store::Home;
use helve::{Policy, ToolError, WireError};
use serde_json::{Value, json};

use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::{setup, ui};

/// What came of looking at a server.
pub(super) type Answer = Result<ServerLook, ToolError>;

/// Shows the address at which the owner signs in.
struct AtTerminal;

impl Owner for AtTerminal {
    fn open(&self, server: &str, url: &str) {
        ui::note(&harmless(&format!("{server} wants you to sign in: open {url}")));
    }
}

/// The servers of the configuration; none is started yet.
pub(super) fn fleet(global: &Global, policy: &Policy) -> Result<Arc<Fleet>, Failure> {
    let (workspace, home) = (setup::workspace(global)?, Home::default_path()?);
    let keep = helve::mcp::keep(&home, policy, Some(Arc::new(AtTerminal)));
    Ok(helve::mcp::fleet(policy, &workspace, &home, keep))
}

/// Runs `work` to its end.
pub(in crate::commands) fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("the event loop cannot start: {error}")))?;
    Ok(tokio.block_on(work))
}

/// An error of a server as one of this command.
pub(super) fn told(error: &ToolError) -> Failure {
    let hint = error.hint.as_deref().map(|hint| format!("\n{hint}")).unwrap_or_default();
    Failure::of_kind(error.kind, code(error), harmless(&format!("{}{hint}", error.message)))
}

/// The exit code of an error of a server.
pub(super) fn code(error: &ToolError) -> u8 {
    if error.kind == helve::ErrorKind::SandboxUnavailable { 5 } else { 1 }
}

/// Looks at every server that is switched on, all at once.
pub(super) fn all(global: &Global, policy: Policy) -> Result<Vec<(String, Answer)>, Failure> {
    let names: Vec<String> = policy.mcp_servers().into_iter().map(|server| server.name).collect();
    let fleet = fleet(global, &policy)?;
    block_on(async {
        let looks: Vec<_> = names
            .into_iter()
            .map(|name| {
                let fleet = fleet.clone();
                tokio::spawn(async move {
                    let look = fleet.look(&name).await;
                    (name, look)
                })
            })
            .collect();
        let mut answers = Vec::new();
        for look in looks {
            if let Ok(answer) = look.await {
                answers.push(answer);
            }
        }
        fleet.close().await;
        answers
    })
}

/// The words for how a tool stands.
pub(super) fn standing(standing: &Standing) -> &'static str {
    match standing {
        Standing::On => "on",
        Standing::Changed { .. } => "changed",
        Standing::New => "new",
        Standing::Denied => "denied",
    }
}

fn era(look: &ServerLook) -> &'static str {
    match look.era {
        Era::Stateful => "stateful",
        Era::Stateless => "stateless",
    }
}

pub(super) fn as_json(answer: &Answer) -> Value {
    let look = match answer {
        Ok(look) => look,
        Err(error) => return json!({"ok": false, "error": WireError::from(error.clone())}),
    };
    let tools: Vec<Value> = look
        .tools
        .iter()
        .map(|tool| {
            let mut value = json!({
                "tool": tool.definition.tool, "shown_as": tool.definition.shown_as,
                "standing": standing(&tool.standing), "hash": tool.definition.hash, "definition": tool.definition.pinned,
            });
            if let Some(why) = kept_out(tool) {
                value["kept_out"] = why.into();
            }
            if let Standing::Changed { old, .. } = &tool.standing {
                value["pinned"] = old.clone();
            }
            value
        })
        .collect();
    let rejected: Vec<Value> =
        look.rejected.iter().map(|tool| json!({"tool": tool.tool, "reason": tool.reason})).collect();
    json!({
        "ok": true, "server": look.name, "era": era(look), "protocol": look.version, "server_info": look.server_info,
        "instructions": look.instructions, "opened_in_us": u64::try_from(look.opened_in.as_micros()).unwrap_or(u64::MAX),
        "sandbox": look.sandbox, "tools": tools, "rejected": rejected,
    })
}

/// So many tools, in words.
pub(super) fn counted(count: usize) -> String {
    if count == 1 { "1 tool".to_owned() } else { format!("{count} tools") }
}

/// Why a tool that is on is not offered all the same.
pub(super) fn kept_out(tool: &ToolLook) -> Option<String> {
    match tool.standing {
        Standing::On => helve::mcp::kept_out(&tool.definition),
        _ => None,
    }
}

/// Whether a tool waits for the owner's yes.
pub(super) fn waits(tool: &ToolLook) -> bool {
    matches!(tool.standing, Standing::Changed { .. } | Standing::New)
}

/// What came of it, on one line.
pub(super) fn on_one_line(answer: &Answer) -> String {
    let look = match answer {
        Ok(look) => look,
        Err(error) => return format!("{} {}", ui::styled(ui::BAD, "fails:"), one_line(&error.message, 300)),
    };
    let place = match &look.sandbox {
        Some(sandbox) if sandbox.layers.is_empty() => format!(", in {}", sandbox.backend),
        Some(sandbox) => format!(", in {} ({})", sandbox.backend, sandbox.layers.join(", ")),
        None => String::new(),
    };
    let is_off = |tool: &&ToolLook| !matches!(tool.standing, Standing::On) || kept_out(tool).is_some();
    let off = look.tools.iter().filter(is_off).count();
    let off = if off + look.rejected.len() == 0 {
        String::new()
    } else {
        format!(", {} not offered", off + look.rejected.len())
    };
    format!(
        "{} in {} ms: {}{off}, protocol {} ({}){}",
        ui::styled(ui::GOOD, "answers"),
        look.opened_in.as_millis(),
        counted(look.tools.len()),
        one_line(&look.version, 40),
        era(look),
        harmless(&place)
    )
}

/// The tools of a server, one a line.
pub(super) fn tools(look: &ServerLook) -> String {
    let mut text = String::new();
    for tool in &look.tools {
        let kept_out = kept_out(tool);
        let (style, word) = match (&kept_out, &tool.standing) {
            (Some(_), _) => (ui::BAD, "kept out"),
            (None, Standing::On) => (ui::GOOD, "on"),
            (None, Standing::Denied) => (ui::FAINT, "denied"),
            (None, other) => (ui::CAREFUL, standing(other)),
        };
        let state = ui::styled(style, &format!("{word:9}"));
        let about =
            kept_out.map_or_else(|| one_line(&tool.definition.description, 100), |why| one_line(&why, 200));
        let _ = writeln!(
            text,
            "  {state}{}  {}",
            one_line(&tool.definition.tool, 100),
            ui::styled(ui::FAINT, &about)
        );
    }
    for tool in &look.rejected {
        let state = ui::styled(ui::BAD, "left out ");
        let _ = writeln!(text, "  {state}{}  {}", one_line(&tool.tool, 100), one_line(&tool.reason, 200));
    }
    text
}
