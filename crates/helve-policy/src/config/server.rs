//! The values that only the keys of `[mcp]` have: tables of variables and headers, addresses, and what is said of single
//! tools of a server.
//!
//! In comes a [`Node`] of a file, out goes a [`Value`], or what was expected. No message repeats a value that may be a
//! secret: what stands in a table of variables or headers is never shown.

use std::collections::BTreeMap;

use helve_core::ApprovalNeed;

use super::document::{Node, Raw};
use super::keys::APPROVALS;
use super::value::{Kind, Value, is_variable_name};

/// As many entries may stand in one table.
const MOST: usize = 256;

/// What the owner says about one tool of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerTool {
    pub(crate) enabled: Option<bool>,
    pub(crate) approval: Option<ApprovalNeed>,
}

/// Checks one value of a kind that this module knows.
pub(crate) fn check(kind: Kind, node: &Node) -> Result<Value, String> {
    match (kind, &node.value) {
        (Kind::Texts | Kind::ToolPatterns, Raw::List(items)) => {
            let text = |item: &Node| match &item.value {
                Raw::Text(text)
                    if !(text.contains('\0') || kind == Kind::ToolPatterns && text.is_empty()) =>
                {
                    Ok(text.clone())
                }
                Raw::Text(_) => Err(format!("expected {}; one is empty or holds a NUL", kind.expected())),
                other => Err(format!("expected {}, received {} in it", kind.expected(), sort(other))),
            };
            Ok(Value::List(items.iter().map(text).collect::<Result<_, _>>()?))
        }
        (Kind::Variables | Kind::Headers | Kind::HeaderVariables, Raw::Table(entries)) => {
            let mut table = BTreeMap::new();
            for (name, node) in entries.iter().take(MOST + 1) {
                table.insert(name.clone(), entry(kind, name, node)?);
            }
            if table.len() > MOST {
                return Err(format!("there may be at most {MOST} entries"));
            }
            Ok(if kind == Kind::HeaderVariables { Value::Names(table) } else { Value::Hidden(table) })
        }
        (Kind::ServerTools, Raw::Table(entries)) => {
            let tools = entries.iter().map(|(name, node)| Ok((name.clone(), tool(name, node)?)));
            Ok(Value::ServerTools(tools.collect::<Result<_, String>>()?))
        }
        (_, other) => Err(format!("expected {}, received {}", kind.expected(), sort(other))),
    }
}

/// What a later layer says is added to what an earlier one said; for one name the later one counts.
pub(crate) fn merge(earlier: Option<Value>, later: Value) -> Value {
    match (earlier, later) {
        (Some(Value::Hidden(mut all)), Value::Hidden(new)) => {
            all.extend(new);
            Value::Hidden(all)
        }
        (Some(Value::Names(mut all)), Value::Names(new)) => {
            all.extend(new);
            Value::Names(all)
        }
        (Some(Value::ServerTools(mut all)), Value::ServerTools(new)) => {
            for (name, tool) in new {
                let known = all.entry(name).or_default();
                known.enabled = tool.enabled.or(known.enabled);
                known.approval = tool.approval.or(known.approval);
            }
            Value::ServerTools(all)
        }
        (_, later) => later,
    }
}

/// An address that a server may have: `https:`, or `http:` to this machine.
pub(crate) fn check_url(url: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("expected an address such as \"https://example.com\": {why}"));
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
        None => return wrong("there is no scheme"),
    };
    if url.len() > 2048 || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return wrong("it is too long, or holds a space or a character outside ASCII");
    }
    if url.contains('#') {
        return wrong("it has a fragment");
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains(['@', '\\']) {
        return wrong(
            "a name or password cannot stand in it; use `bearer_token_env` or `headers_from_env` of a server, `key_env` of a model",
        );
    }
    let host = match authority.strip_prefix('[') {
        Some(six) => six.split_once(']').map(|(host, _)| host).unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    if host.is_empty() {
        return wrong("there is no host");
    }
    match scheme.as_str() {
        "https" => Ok(()),
        "http" if is_this_machine(host) => Ok(()),
        "http" => wrong("`http:` may only lead to this machine; use `https:`"),
        _ => wrong("the scheme is neither `https` nor `http`"),
    }
}

fn is_this_machine(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// One entry of a table of variables or headers.
fn entry(kind: Kind, name: &str, node: &Node) -> Result<String, String> {
    let is_named_well = if kind == Kind::Variables { is_variable_name(name) } else { is_header_name(name) };
    if !is_named_well {
        return Err(format!(
            "{name:?} is not the name of a {}",
            if kind == Kind::Variables { "variable" } else { "header that can be set" }
        ));
    }
    let text = match (&node.spelled, &node.value) {
        (Some(spelled), _) => spelled,
        (None, Raw::Text(text)) => text,
        (None, other) => return Err(format!("`{name}`: expected a string, received {}", sort(other))),
    };
    let is_good = match kind {
        Kind::HeaderVariables => is_variable_name(text),
        Kind::Headers => text.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)),
        _ => !text.contains('\0'),
    };
    match kind {
        _ if is_good => Ok(text.clone()),
        Kind::HeaderVariables => Err(format!("`{name}`: expected the name of a variable")),
        _ => Err(format!("`{name}`: its value holds a character that cannot stand there")),
    }
}

/// What the protocol sets itself, nobody else does.
fn is_header_name(name: &str) -> bool {
    const OWN: &[&str] =
        &["host", "content-length", "content-type", "accept", "connection", "transfer-encoding"];
    let lower = name.to_ascii_lowercase();
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (1..=128).contains(&name.len())
        && name.bytes().all(token)
        && !OWN.contains(&lower.as_str())
        && !lower.starts_with("mcp-")
}

fn tool(name: &str, node: &Node) -> Result<ServerTool, String> {
    if name.is_empty() || name.len() > 256 || name.contains(['*', '?', '[', ']', '\0']) {
        return Err(format!("{name:?} is not the name of a tool; patterns belong into `allow` and `deny`"));
    }
    let Raw::Table(entries) = &node.value else {
        return Err(format!("`{name}`: expected a table, received {}", sort(&node.value)));
    };
    let mut tool = ServerTool::default();
    for (key, node) in entries {
        let spelled = node.spelled.as_deref();
        match (key.as_str(), &node.value) {
            ("enabled", Raw::Bool(value)) => tool.enabled = Some(*value),
            ("enabled", other) => {
                return Err(format!("`{name}.enabled`: expected true or false, received {}", sort(other)));
            }
            ("approval", Raw::Text(word)) => tool.approval = Some(approval(name, word)?),
            ("approval", _) => tool.approval = Some(approval(name, spelled.unwrap_or_default())?),
            (other, _) => {
                return Err(format!(
                    "unknown key `{other}` of `{name}`; the known keys are `enabled` and `approval`"
                ));
            }
        }
    }
    Ok(tool)
}

fn approval(tool: &str, word: &str) -> Result<ApprovalNeed, String> {
    need(word).ok_or_else(|| {
        let words: Vec<String> = APPROVALS.iter().map(|word| format!("{word:?}")).collect();
        format!("`{tool}.approval`: expected {}", words.join(" or "))
    })
}

/// The word of the configuration as the need that it means.
pub(crate) fn need(word: &str) -> Option<ApprovalNeed> {
    match word {
        "never" => Some(ApprovalNeed::Never),
        "unless_auto_approved" => Some(ApprovalNeed::UnlessAutoApproved),
        "always" => Some(ApprovalNeed::Always),
        _ => None,
    }
}

/// The need as a word of the configuration.
pub(crate) fn word(need: ApprovalNeed) -> &'static str {
    match need {
        ApprovalNeed::Never => "never",
        ApprovalNeed::UnlessAutoApproved => "unless_auto_approved",
        ApprovalNeed::Always => "always",
    }
}

impl ServerTool {
    pub(crate) fn to_json(self) -> serde_json::Value {
        let mut said = serde_json::Map::new();
        if let Some(enabled) = self.enabled {
            said.insert("enabled".into(), enabled.into());
        }
        if let Some(need) = self.approval {
            said.insert("approval".into(), word(need).into());
        }
        said.into()
    }
}

/// The type of a value, without the value.
fn sort(value: &Raw) -> &'static str {
    match value {
        Raw::Null => "null",
        Raw::Bool(_) => "a boolean",
        Raw::Integer(_) | Raw::Number(_) => "a number",
        Raw::Text(_) => "a string",
        Raw::Date(_) => "a date",
        Raw::List(_) => "a list",
        Raw::Table(_) => "a table",
    }
}
