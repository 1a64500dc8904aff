//! The bodies of the two entries of a call, written by hand: every call writes both.
//!
//! The members stand in the order of canonical JSON, which is that of their names. `tests` holds what is written against the
//! canonical form of the same things.

use helve_core::{Content, Decision, Verdict};
use helve_store::{Members, StoreError};
use serde_json::Value;

use super::{Outcome, Planned};

type Written = Result<(), StoreError>;

impl Planned<'_> {
    pub(super) fn write(&self, out: &mut Members<'_>) -> Written {
        // Taken apart by name, so that none is forgotten. The call stands outside of the body.
        let Planned {
            approval,
            args,
            call: _,
            called,
            caller,
            decision,
            effects,
            hooks,
            id,
            lane,
            tainted,
            tool,
            workspace,
        } = self;
        out.some("approval", *approval)?;
        out.any("args", *args)?;
        text(out, "called", *called);
        out.text("caller", caller);
        write_decision(out, *decision)?;
        out.some("effects", *effects)?;
        out.some("hooks", Some(*hooks).filter(|hooks| !hooks.is_empty()))?;
        write_id(out, *id)?;
        text(out, "lane", *lane);
        text(out, "tainted", *tainted);
        out.text("tool", tool);
        out.text("workspace", workspace);
        Ok(())
    }
}

impl Outcome<'_> {
    pub(super) fn write(&self, out: &mut Members<'_>) -> Written {
        let Outcome {
            call,
            changes,
            content,
            cost,
            decision,
            details,
            duration_us,
            error,
            hooks,
            id,
            notes,
            ok,
            raw,
            sandbox,
            tainted,
            tool,
            truncated,
        } = self;
        out.text("call", call.as_str());
        out.some("changes", Some(*changes).filter(|changes| !changes.is_empty()))?;
        match content {
            [Content::Text { text, about: None }] => out.list_of_one("content", |block| {
                block.text("text", text);
                block.json("type", "\"text\"");
            }),
            content => out.any("content", content)?,
        }
        match cost {
            None => out.json("cost", "null"),
            Some(cost) => out.any("cost", cost)?,
        }
        write_decision(out, decision.as_ref())?;
        out.some("details", Some(*details).filter(|details| !details.is_null()))?;
        out.number("duration_us", *duration_us);
        out.some("error", error.as_ref())?;
        out.some("hooks", Some(*hooks).filter(|hooks| !hooks.is_empty()))?;
        write_id(out, id.as_ref())?;
        out.some("notes", Some(*notes).filter(|notes| !notes.is_empty()))?;
        out.json("ok", if *ok { "true" } else { "false" });
        text(out, "raw", *raw);
        out.some("sandbox", sandbox.as_ref())?;
        text(out, "tainted", tainted.as_deref());
        out.text("tool", tool);
        out.some("truncated", truncated.as_ref())
    }
}

fn text(out: &mut Members<'_>, name: &'static str, text: Option<&str>) {
    if let Some(text) = text {
        out.text(name, text);
    }
}

fn write_id(out: &mut Members<'_>, id: Option<&Value>) -> Written {
    match id {
        Some(Value::Number(number)) if number.is_u64() => {
            out.number("id", number.as_u64().unwrap_or_default());
            Ok(())
        }
        id => out.some("id", id),
    }
}

fn write_decision(out: &mut Members<'_>, decision: Option<&Decision>) -> Written {
    match decision {
        // Most calls are allowed, and nothing more is said about that.
        Some(Decision { verdict: Verdict::Allow, rule, reason: None, span: None, grant: None }) => {
            out.members("decision", |decision| {
                decision.text("rule", rule);
                decision.json("verdict", "\"allow\"");
            });
            Ok(())
        }
        decision => out.some("decision", decision),
    }
}

#[cfg(test)]
mod tests;
