//! The bodies of the two entries of a call, written by hand: every call writes both.
//!
//! The members stand in the order of canonical JSON, which is that of their names. `tests` holds what is written against the
//! canonical form of the same things.

use helve_core::{Content, Decision, Verdict};
use helve_store::{Key, Members, StoreError, key};
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
            client,
            decision,
            effects,
            hooks,
            id,
            lane,
            tainted,
            tool,
            workspace,
        } = self;
        out.some(key!("approval"), *approval)?;
        out.any(key!("args"), *args)?;
        text(out, key!("called"), *called);
        out.text(key!("caller"), caller);
        text(out, key!("client"), *client);
        write_decision(out, *decision)?;
        out.some(key!("effects"), *effects)?;
        out.some(key!("hooks"), Some(*hooks).filter(|hooks| !hooks.is_empty()))?;
        write_id(out, *id)?;
        text(out, key!("lane"), *lane);
        text(out, key!("tainted"), *tainted);
        out.text(key!("tool"), tool);
        out.text(key!("workspace"), workspace);
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
        out.text(key!("call"), call.as_str());
        out.some(key!("changes"), Some(*changes).filter(|changes| !changes.is_empty()))?;
        match content {
            [Content::Text { text, about: None }] => out.list_of_one(key!("content"), |block| {
                block.text(key!("text"), text);
                block.json(key!("type"), "\"text\"");
            }),
            content => out.any(key!("content"), content)?,
        }
        match cost {
            None => out.json(key!("cost"), "null"),
            Some(cost) => out.any(key!("cost"), cost)?,
        }
        write_decision(out, decision.as_ref())?;
        out.some(key!("details"), Some(*details).filter(|details| !details.is_null()))?;
        out.number(key!("duration_us"), *duration_us);
        out.some(key!("error"), error.as_ref())?;
        out.some(key!("hooks"), Some(*hooks).filter(|hooks| !hooks.is_empty()))?;
        write_id(out, id.as_ref())?;
        out.some(key!("notes"), Some(*notes).filter(|notes| !notes.is_empty()))?;
        out.json(key!("ok"), if *ok { "true" } else { "false" });
        text(out, key!("raw"), *raw);
        if let Some(sandbox) = sandbox {
            out.json(key!("sandbox"), sandbox.json());
        }
        text(out, key!("tainted"), tainted.as_deref());
        out.text(key!("tool"), tool);
        out.some(key!("truncated"), truncated.as_ref())
    }
}

fn text(out: &mut Members<'_>, key: Key, text: Option<&str>) {
    if let Some(text) = text {
        out.text(key, text);
    }
}

fn write_id(out: &mut Members<'_>, id: Option<&Value>) -> Written {
    match id {
        Some(Value::Number(number)) if number.is_u64() => {
            out.number(key!("id"), number.as_u64().unwrap_or_default());
            Ok(())
        }
        id => out.some(key!("id"), id),
    }
}

fn write_decision(out: &mut Members<'_>, decision: Option<&Decision>) -> Written {
    match decision {
        // Most calls are allowed, and nothing more is said about that.
        Some(Decision { verdict: Verdict::Allow, rule, reason: None, span: None, grant: None }) => {
            out.members(key!("decision"), |decision| {
                decision.text(key!("rule"), rule);
                decision.json(key!("verdict"), "\"allow\"");
            });
            Ok(())
        }
        decision => out.some(key!("decision"), decision),
    }
}

#[cfg(test)]
mod tests;
