//! The manual of the tools for a model: what each does, its limits, and how to plan work with them. Made from the
//! specs and the table of limits, so that it cannot say anything else than the code.

use std::borrow::Borrow;
use std::fmt::Write as _;

use helve_core::limits::{Limits, fixed};
use helve_core::schema;
use helve_core::{ApprovalNeed, Lane, SandboxChoice, ToolSpec};
use helve_policy::Policy;
use serde_json::Value;

/// The text of a TOOLS.md for these tools under this policy.
pub fn manual(specs: impl IntoIterator<Item: Borrow<ToolSpec>>, policy: &Policy) -> String {
    let limits = policy.limits();
    let specs: Vec<_> = specs.into_iter().collect();
    let specs: Vec<&ToolSpec> = specs.iter().map(Borrow::borrow).collect();
    let mut text = String::from(
        "# Tools\n\nThis manual says what each tool does and where its limits are. It is made from the tools \
         themselves.\n",
    );
    for spec in &specs {
        tool(&mut text, spec, policy);
    }
    parallelism(&mut text, &specs);
    text.push_str(match policy.sandbox() {
        SandboxChoice::Auto
        | SandboxChoice::Native
        | SandboxChoice::Landlock
        | SandboxChoice::Bwrap
        | SandboxChoice::Container(_) => WORKSPACE_CONTAINED,
        SandboxChoice::Wrapper { .. } | SandboxChoice::None => WORKSPACE_OPEN,
    });
    if specs.iter().any(|spec| spec.lane == Lane::Files) {
        text.push_str(FILES);
    }
    text.push_str(REFUSED);
    text.push_str(&truncation(limits));
    limits_table(&mut text, policy);
    text.push_str(PLANNING);
    text
}

fn tool(text: &mut String, spec: &ToolSpec, policy: &Policy) {
    let _ = write!(text, "\n## {}\n\n{}\n", spec.name, spec.description);
    if !spec.aliases.is_empty() {
        let _ = write!(text, "\nAlso called: {}.\n", spec.aliases.join(", "));
    }
    let properties = spec.parameters["properties"].as_object().into_iter().flatten();
    let mut rows = properties.peekable();
    if rows.peek().is_some() {
        text.push_str("\n| parameter | type | required | default | meaning |\n|---|---|---|---|---|\n");
    }
    for (name, property) in rows {
        parameter(text, spec, name, property);
    }
    let _ = write!(text, "\n{}\n", traits(spec, policy));
}

fn parameter(text: &mut String, spec: &ToolSpec, name: &str, property: &Value) {
    let required =
        spec.parameters["required"].as_array().is_some_and(|keys| keys.iter().any(|key| key == name));
    let default = property.get("default").filter(|d| !d.is_null()).map(Value::to_string).unwrap_or_default();
    let mut meaning = property["description"].as_str().unwrap_or_default().replace('\n', " ");
    let aliases: Vec<&str> = schema::aliases(property).collect();
    if !aliases.is_empty() {
        let _ = write!(meaning, " Also: {}.", aliases.join(", "));
    }
    let range = [("minimum", "at least"), ("maximum", "at most")]
        .iter()
        .filter_map(|(key, word)| property.get(*key).map(|limit| format!("{word} {limit}")))
        .collect::<Vec<_>>()
        .join(", ");
    if !range.is_empty() {
        let end = if schema::clamps(property) { "; beyond that it is set to the limit" } else { "" };
        let _ = write!(meaning, " ({range}{end})");
    }
    let required = if required { "yes" } else { "" };
    let _ = writeln!(text, "| `{name}` | {} | {required} | {default} | {} |", kind(property), meaning.trim());
}

fn kind(property: &Value) -> String {
    if let Some(options) = property["enum"].as_array() {
        return options.iter().map(|option| format!("`{option}`")).collect::<Vec<_>>().join(" ");
    }
    let names: Vec<&str> = schema::types(property).filter(|name| *name != "null").collect();
    if names.is_empty() { "any".to_owned() } else { names.join(" or ") }
}

fn traits(spec: &ToolSpec, policy: &Policy) -> String {
    let rule = policy.tool(&spec.name);
    let mut traits = vec![if spec.read_only { "Changes nothing." } else { "May change things." }.to_owned()];
    traits.push(format!("Lane: {}.", spec.lane.name()));
    if spec.exclusive {
        traits.push("Runs alone.".to_owned());
    }
    match rule.approval.unwrap_or(spec.approval) {
        ApprovalNeed::Never => {}
        ApprovalNeed::UnlessAutoApproved => {
            traits.push(
                "A person is asked unless the sandbox contains it or the owner approved in advance."
                    .to_owned(),
            );
        }
        ApprovalNeed::Always => traits.push("A person is asked each time.".to_owned()),
    }
    if let Some(limit) = rule.rate(spec.rate_limit) {
        traits.push(format!("At most {} calls a minute and {} an hour.", limit.per_minute, limit.per_hour));
    }
    traits.join(" ")
}

fn parallelism(text: &mut String, specs: &[&ToolSpec]) {
    text.push_str(
        "\n# What runs at the same time\n\nThe calls of one turn are one batch. Results come in call order, however \
         they ran.\n\n| tool | read only | exclusive | beside others |\n|---|---|---|---|\n",
    );
    for spec in specs {
        let word = |yes: bool| if yes { "yes" } else { "no" };
        let beside = match (spec.exclusive, spec.is_concurrency_safe()) {
            (true, _) => "never: it runs alone",
            (false, true) => "yes",
            (false, false) => "where they touch different things",
        };
        let (read_only, exclusive) = (word(spec.read_only), word(spec.exclusive));
        let _ = writeln!(text, "| {} | {read_only} | {exclusive} | {beside} |", spec.name);
    }
}

const WORKSPACE_CONTAINED: &str = "
# The workspace

Commands start in the workspace and can write there and in `/tmp`. The directories above it, the home directory, \
secrets and Helve's own state are not there for them. There is no network unless the owner opened it.
";

const WORKSPACE_OPEN: &str = "
# The workspace

Commands start in the workspace. The owner has chosen to run them without Helve's own sandbox: what they can reach \
is what the owner's wrapper or account can reach. Stay in the workspace.
";

const FILES: &str = "
# Files

Paths are relative to the workspace; absolute ones count if they lie in it, or in a directory that the owner opened. \
Links that stay inside are followed for reading, not for changing. What has changed since you last read or wrote it is not \
overwritten: the error shows what changed, and you decide again. All changes of one call happen or none does; if Helve \
is killed in the middle, each file is its old or its new self, and the next start takes back what was done. The owner can \
undo each call. Files that usually hold credentials, such as `.env` and keys, are closed and not listed. Changing hooks, editor or agent \
configuration and shell start files needs the owner's yes.
";

const REFUSED: &str = "
What is refused stays refused: the answer names the rule, and only the owner can change it. Do not try the same by \
other means.
";

fn truncation(limits: &Limits) -> String {
    format!(
        "\n# Long output\n\nA result shows at most {} characters: its head and its tail, with the exact count of what \
         is left out between them. The whole is kept: call `read_output` with the call's id to page through it or to \
         search it. Better: ask for less, with `head`, `tail`, `grep` or `wc -l` in the command.\n",
        limits.output_chars
    )
}

fn limits_table(text: &mut String, policy: &Policy) {
    let limits = policy.limits();
    text.push_str(
        "\n# Limits\n\nOnly the owner can change them.\n\n| limit | value | at the limit |\n|---|---|---|\n",
    );
    for row in Limits::TABLE {
        let value = limits.get(row.name).unwrap_or(row.default);
        let _ = writeln!(text, "| {} | {value} {} | {} |", row.name, row.unit, row.at_limit);
    }
    for (name, value, at_limit) in policy.agent().rows() {
        let _ = writeln!(text, "| {name} | {value} | {at_limit} |");
    }
    text.push_str(
        "\nThese hold for file tools whatever the policy says.\n\n| what | at most | at the limit |\n|---|---|---|\n",
    );
    for row in fixed::TABLE {
        let _ = writeln!(text, "| {} | {} {} | {} |", row.what, row.value, row.unit, row.at_limit);
    }
}

const PLANNING: &str = "
# How to plan work with these tools

1. Look before you change: read what is there, then act, then check the result with another call.
2. Use the narrowest tool that does the job.
3. Put calls that only read into one turn; they run side by side. Give a command that needs the result of another one \
its own turn, or join them with `&&`.
4. A failed call says why. Read it, change the approach, and do not send the same call again.
5. Give a command that may run long a `timeout`, and let it print little.
";
