//! `helve why`: why a call of the past was allowed, asked about or refused, and what the sandbox refused to its command, from
//! the journal alone; and with `--rerun` what it refuses now, watched closely.

mod rerun;

use std::fmt::Write as _;

use clap::Args as ClapArgs;
use helve::deny_read::{self, says_closed};
use helve::sandbox::Explained;
use helve::store::{CallRow, CallStory, Index};
use helve::{EffectSummary, ErrorKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{log, policy};
use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::marked::{self, Mark};
use crate::{effects, moment, refused, setup, ui};

/// Explain a past decision
#[derive(ClapArgs)]
#[command(long_about = "\
Explain a past decision: the rule that decided, the part of the command that it was about, the reason, the smallest \
change of the configuration that would have allowed it, and who approved it.

Also what the sandbox refused to the command while it ran, as far as it was seen: what, by which rule, and the lines of the \
configuration that would allow exactly that.

It is read from the journal: what the configuration says now does not matter (`helve check` tells that). A call can be \
named by the beginning of its id; `helve log` lists them.

With --rerun the recorded command runs again, in its workspace and under the configuration of now, and is watched for every \
file that it opens or changes. It runs over a layer that is dropped when it ends, without a network, and like every call \
after the guard has agreed to it; it is recorded. Needs the sandbox native.")]
#[command(after_help = "\
Examples:
  helve why c_01JD2M6WZ0
  helve why c_01JD2M6WZ0 --json
  helve why c_01JD2M6WZ0 --rerun")]
pub(crate) struct Options {
    /// The call
    #[arg(value_name = "CALL")]
    call: String,
    /// Run its command again over a layer that is dropped, and tell everything that is refused to it
    #[arg(long)]
    rerun: bool,
}

pub(crate) fn why(global: &Global, options: &Options) -> Result<u8, Failure> {
    let home = setup::home()?;
    let mut index = Index::open(&home)?;
    index.sync()?;
    let row = log::find(&home, &mut index, &options.call)?;
    let story = log::story::read(&mut index, &row)?;
    if options.rerun {
        drop(index);
        return rerun::rerun(global, &row.call, &story);
    }
    let past = Past::new(&row, &story);
    if global.json {
        ui::print_json(&past.json())?;
    } else {
        ui::print_styled(&past.told(|rule| policy::is_explained(global, rule)))?;
    }
    Ok(0)
}

/// What the journal says of one decision.
struct Past<'a> {
    row: &'a CallRow,
    story: &'a CallStory,
    /// The command as it is recorded.
    command: Option<&'a str>,
    decision: &'a Value,
    approval: &'a Value,
    effects: Option<EffectSummary>,
    /// What the sandbox refused to it, and how many more.
    denied: (Vec<Explained>, u64),
}

impl<'a> Past<'a> {
    fn new(row: &'a CallRow, story: &'a CallStory) -> Self {
        let (planned, outcome) = (&story.planned, story.outcome.as_ref().unwrap_or(&Value::Null));
        // A refusal stands in the outcome, where nothing was planned or planning and result differ.
        let either = |name: &str| if outcome[name].is_null() { &planned[name] } else { &outcome[name] };
        let effects = Some(either("effects")).filter(|effects| !effects.is_null());
        Past {
            row,
            story,
            command: planned["args"]["command"].as_str(),
            decision: either("decision"),
            approval: either("approval"),
            effects: effects.and_then(|effects| EffectSummary::deserialize(effects).ok()),
            denied: refused::of_details(&outcome["details"]),
        }
    }

    fn word(&self, name: &str) -> Option<&str> {
        self.decision[name].as_str()
    }

    fn json(&self) -> Value {
        json!({
            "call": self.row.call,
            "session": self.story.session,
            "at_us": self.row.at_us,
            "tool": self.row.tool,
            "command": self.command,
            "verdict": self.decision["verdict"],
            "rule": self.decision["rule"],
            "reason": self.decision["reason"],
            "span": self.decision["span"],
            "grant": self.decision["grant"],
            "approval": self.approval,
            "effects": self.effects,
            "denied": self.denied.0,
            "denied_more": self.denied.1,
            "error": self.story.outcome.as_ref().map(|outcome| &outcome["error"]["kind"]),
            "error_message": self.story.outcome.as_ref().map(|outcome| &outcome["error"]["message"]),
            "refused_by": self.refused_by(),
        })
    }

    /// The error that a call ended in although it was allowed: the tool refused it where it looked, or could not do it.
    fn failure(&self) -> Option<(&str, &str)> {
        let error = &self.story.outcome.as_ref()?["error"];
        let allowed = self.word("verdict") == Some("allow");
        let message = error["message"].as_str().unwrap_or_default();
        error["kind"]
            .as_str()
            .filter(|_| allowed)
            .map(|kind| (kind, message.lines().next().unwrap_or_default()))
    }

    /// The rule that refused it there, where one did.
    fn refused_by(&self) -> Option<&'static str> {
        let error = &self.story.outcome.as_ref()?["error"];
        let kind = ErrorKind::deserialize(&error["kind"]).ok()?;
        says_closed(kind, error["message"].as_str().unwrap_or_default()).then_some(deny_read::KEY)
    }

    fn told(&self, is_explained: impl Fn(&str) -> bool) -> String {
        let tool = self.row.tool.as_deref().unwrap_or("?");
        let mut text = format!(
            "{}  {} UTC  {}\n",
            ui::styled(ui::STRONG, &self.row.call),
            moment::show(self.row.at_us),
            harmless(tool)
        );
        if let Some(command) = self.command {
            text.push_str(&marked::drawn(command, &self.marks(), "  | "));
        }
        let Some(verdict) = self.word("verdict") else {
            let kind = self.story.outcome.as_ref().and_then(|outcome| outcome["error"]["kind"].as_str());
            let why = kind.map(|kind| format!(" It ended before one: {kind}.")).unwrap_or_default();
            let _ = writeln!(
                text,
                "No rule decided about this call.{why} `helve log {}` tells all.",
                self.row.call
            );
            text.push_str(&refused::told(&self.denied.0, self.denied.1));
            return text;
        };
        let style = match verdict {
            "allow" => ui::GOOD,
            "ask" => ui::CAREFUL,
            _ => ui::BAD,
        };
        let rule = self.word("rule").unwrap_or("?");
        let _ = writeln!(text, "{}: {}", ui::styled(style, &harmless(verdict)), harmless(rule));
        if let Some(reason) = self.word("reason") {
            let _ = writeln!(text, "{}", harmless(reason));
        }
        self.tell_approval(&mut text);
        if let Some((kind, message)) = self.failure() {
            let by = self.refused_by().map(|rule| format!(" by {rule}")).unwrap_or_default();
            let kind = ui::styled(ui::BAD, &harmless(kind));
            let message = harmless(message);
            let _ =
                writeln!(text, "It was allowed, and ended in an error all the same: {kind}{by}: {message}");
        }
        if let Some(grant) = self.word("grant") {
            let _ = writeln!(text, "What would have allowed it: {}", harmless(grant));
        }
        if let Some(summary) = &self.effects {
            for (name, value) in effects::lines(summary, self.command.unwrap_or_default()) {
                let name = ui::styled(ui::FAINT, &format!("{name:15}"));
                let _ = writeln!(text, "  {name}{}", one_line(&value, usize::MAX));
            }
        }
        let rules = [Some(rule), self.refused_by()];
        for rule in rules.into_iter().flatten().filter(|rule| is_explained(rule)) {
            let rule = one_line(rule, 80);
            let _ =
                writeln!(text, "`helve policy explain {}` says what the rule means.", helve::quote(&rule));
        }
        text.push_str(&refused::told(&self.denied.0, self.denied.1));
        text
    }

    /// Who was asked, about what, and what they said.
    fn tell_approval(&self, text: &mut String) {
        let word = |name: &str| self.approval[name].as_str();
        let Some(answer) = word("answer") else { return };
        let by = word("by").unwrap_or("nobody");
        let ids: Vec<&str> =
            self.approval["ids"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let ids = ids.join(", ");
        let said = match answer {
            "once" => format!("allowed once by {by}"),
            "session" => format!("allowed for the session by {by} ({ids})"),
            "always" => format!("allowed always by {by} ({ids})"),
            "stored" => format!("allowed earlier ({ids}); `helve approvals list --all` tells by whom"),
            "denied" => format!("refused by {by}: {}", word("reason").unwrap_or_default()),
            "nobody" => "there was nobody to answer".to_owned(),
            "cancelled" => "taken back before there was an answer".to_owned(),
            "timed_out" => format!("{by} did not answer in time"),
            "stopped" => "not asked, because there were too many questions or refusals".to_owned(),
            other => other.to_owned(),
        };
        let _ = writeln!(text, "Asked by {}: {}", harmless(word("rule").unwrap_or("?")), harmless(&said));
        for part in self.approval["parts"].as_array().into_iter().flatten() {
            let word = |name: &str| one_line(part[name].as_str().unwrap_or_default(), usize::MAX);
            let _ = writeln!(text, "  {}  {}: {}", word("text"), word("rule"), word("reason"));
        }
    }

    fn marks(&self) -> Vec<(marked::Stretch, Mark)> {
        let span = |value: &Value| Some((place(&value[0])?, place(&value[1])?));
        let parts = self.approval["parts"].as_array().into_iter().flatten();
        let rules = parts.map(|part| &part["span"]).chain([&self.decision["span"]]);
        let rules = rules.filter_map(|value| Some((span(value)?, Mark::Rule)));
        let opaque = self.effects.iter().flat_map(|effects| &effects.opaque);
        rules.chain(opaque.filter_map(|part| Some((part.span?, Mark::Unknown)))).collect()
    }
}

fn place(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}
