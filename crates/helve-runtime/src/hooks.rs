//! Programs of the owner's that hear of calls and of sessions: `[[hooks]]` names them.
//!
//! A hook gets one line of JSON and may answer with one: `{"verdict": "allow" | "deny", "reason": …, "args": {…}, "note": …}`,
//! each member only where it has something to say; no line at all says nothing. Everything but `note` is for what is asked
//! before a call. What an answer is worth is decided in the pipeline (`pipeline/hooked.rs`): here programs are run, answers are
//! read, and what was said is written down for the journal.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use helve_core::{CallId, CallResult, Cancel, Decision};
use helve_policy::{Hook, HookEvent, Policy};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::approval::EffectSummary;
use crate::program::{Heard, Program};

/// So many hooks run at the same time; others wait for their turn.
const AT_ONCE: usize = 8;
/// What an answer may hold beside arguments, in bytes.
const MAX_WORDS: usize = 64 << 10;

/// The hooks of a policy.
pub(crate) struct Hooks {
    all: Vec<Runner>,
    session: String,
    workspace: PathBuf,
    turns: Semaphore,
    /// Whether the session has begun.
    begun: AtomicBool,
}

/// A hook and its program.
pub(crate) struct Runner {
    hook: Hook,
    program: Program,
}

/// What a hook is told of a call. No known secret is in it.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct OfCall<'a> {
    pub(crate) caller: &'a str,
    pub(crate) call: &'a CallId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<&'a Value>,
    pub(crate) tool: &'a str,
    /// The normalized arguments.
    pub(crate) args: &'a Value,
    /// What the policy says: `allow`, or `ask` where somebody has to agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<&'a Decision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) effects: Option<&'a EffectSummary>,
    /// Who else wrote what led to the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tainted: Option<&'a str>,
    /// The hook that changed the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rewritten_by: Option<&'a str>,
    /// What came of it, where it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<&'a CallResult>,
}

/// What a hook is told of a session.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct OfSession<'a> {
    pub(crate) caller: &'a str,
    /// Whether it goes on with what was begun before; only at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resumed: Option<bool>,
    /// How it ended; only at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ending: Option<&'a str>,
}

/// The line that a hook gets.
#[derive(Serialize)]
struct Line<'a, T> {
    event: HookEvent,
    hook: &'a str,
    session: &'a str,
    workspace: &'a Path,
    #[serde(flatten)]
    of: T,
}

/// The line that it answers with.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Said {
    #[serde(deserialize_with = "said")]
    pub(crate) verdict: Option<Word>,
    #[serde(deserialize_with = "said")]
    pub(crate) reason: Option<String>,
    #[serde(deserialize_with = "said")]
    pub(crate) args: Option<Value>,
    #[serde(deserialize_with = "said")]
    pub(crate) note: Option<String>,
}

/// A member that is there says something: `null` is not the same as nothing.
fn said<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

/// What it says of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    /// Yes, if somebody has to agree.
    Allow,
    /// No.
    Deny,
}

/// Why there is no answer.
pub(crate) enum Silent {
    /// The call was taken back meanwhile.
    Cancelled,
    /// The hook failed; why, as a phrase.
    Failed(String),
}

/// What a hook said, for the journal. The members stand in the order of canonical JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct HookNote {
    /// The arguments before it changed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) args: Option<Value>,
    pub(crate) hook: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// Why it said no, or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// `nothing`, `allow`, `deny`, `rewrite`, or `failed`.
    pub(crate) said: &'static str,
}

/// What a hook has to say of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSaid {
    /// The hook.
    pub hook: String,
    /// What it says, or why it failed.
    pub text: String,
    /// Whether it failed: then the text is for the owner alone.
    pub failed: bool,
}

impl HookSaid {
    pub(crate) fn of(record: &HookNote) -> Option<HookSaid> {
        let HookNote { hook, note, reason, .. } = record;
        let text = note.as_ref().or(reason.as_ref())?;
        Some(HookSaid { hook: hook.clone(), text: text.clone(), failed: reason.is_some() })
    }
}

impl HookNote {
    /// Of a hook that said nothing.
    pub(crate) fn nothing(hook: &str) -> HookNote {
        HookNote { hook: hook.to_owned(), said: "nothing", ..HookNote::default() }
    }

    /// Of one that failed.
    pub(crate) fn failed(hook: &str, why: String) -> HookNote {
        HookNote { reason: Some(why), said: "failed", ..HookNote::nothing(hook) }
    }
}

impl Hooks {
    /// Those of a policy.
    pub(crate) fn new(policy: &Policy, session: &str, workspace: &Path) -> Hooks {
        let args = usize::try_from(policy.limits().args_bytes).unwrap_or(usize::MAX);
        let runner = |hook: &Hook| Runner {
            program: Program::new(&hook.program, hook.timeout, args.saturating_add(MAX_WORDS)),
            hook: hook.clone(),
        };
        Hooks {
            all: policy.hooks().iter().map(runner).collect(),
            session: session.to_owned(),
            workspace: workspace.to_owned(),
            turns: Semaphore::new(AT_ONCE),
            begun: AtomicBool::new(false),
        }
    }

    /// Whether no hook hears of calls of a tool when this happens.
    pub(crate) fn are_deaf(&self, event: HookEvent, tool: &str) -> bool {
        self.of_call(event, tool).next().is_none()
    }

    /// The hooks that hear of calls of a tool when this happens, in their order.
    pub(crate) fn of_call(&self, event: HookEvent, tool: &str) -> impl Iterator<Item = &Runner> {
        self.all.iter().filter(move |runner| runner.hook.hears_of(event, tool))
    }

    /// Whether a session begins or ends that has not begun or ended before.
    pub(crate) fn is_new(&self, event: HookEvent) -> bool {
        let begins = event == HookEvent::SessionStart;
        self.begun.swap(begins, Ordering::Relaxed) != begins
    }

    /// The hooks that hear of a session when this happens.
    pub(crate) fn of_session(&self, event: HookEvent) -> impl Iterator<Item = &Runner> {
        self.all.iter().filter(move |runner| runner.hook.hears(event))
    }

    /// Asks one hook. It is ended where `cancel` fires first.
    pub(crate) async fn ask(
        &self,
        runner: &Runner,
        event: HookEvent,
        of: impl Serialize,
        cancel: &Cancel,
    ) -> Result<Said, Silent> {
        let Runner { hook, program } = runner;
        let line = Line { event, hook: &hook.name, session: &self.session, workspace: &self.workspace, of };
        let line = serde_json::to_vec(&line)
            .map_err(|error| Silent::Failed(format!("what it is told cannot be written: {error}")))?;
        let heard = async {
            // The time of a hook begins when it does. Nobody closes the semaphore.
            let _turn = self.turns.acquire().await;
            program.ask(line).await
        };
        let heard = tokio::select! {
            biased;
            heard = heard => heard,
            () = cancel.cancelled() => return Err(Silent::Cancelled),
        };
        match heard {
            Heard::Line(line) => read(&line, event).map_err(Silent::Failed),
            Heard::Failed(why) => Err(Silent::Failed(why)),
            Heard::TimedOut => Err(Silent::Failed(took_too_long(hook.timeout))),
        }
    }
}

impl Runner {
    /// How the hook is called.
    pub(crate) fn name(&self) -> &str {
        &self.hook.name
    }
}

fn took_too_long(timeout: Duration) -> String {
    match timeout.as_secs() {
        1 => "it took longer than a second".to_owned(),
        seconds => format!("it took longer than {seconds} seconds"),
    }
}

/// The answer in a line. What is no answer is an error, as a phrase.
fn read(line: &[u8], event: HookEvent) -> Result<Said, String> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(Said::default());
    }
    // A list would be taken for the members in their order.
    if !line.starts_with(b"{") {
        return Err("its answer is no JSON object".to_owned());
    }
    let said: Said =
        serde_json::from_slice(line).map_err(|error| format!("its answer cannot be read: {error}"))?;
    let Said { verdict, reason, args, note: _ } = &said;
    if event != HookEvent::BeforeCall && (verdict.is_some() || reason.is_some() || args.is_some()) {
        return Err(format!("`verdict`, `reason` and `args` answer before_call, not {}", event.name()));
    }
    if args.as_ref().is_some_and(|args| !args.is_object()) {
        return Err("its `args` are no JSON object".to_owned());
    }
    if *verdict == Some(Word::Deny) && args.is_some() {
        return Err("it denies the call and changes its arguments; it can do one of them".to_owned());
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_one_object_with_members_that_are_known() {
        let before = |line: &str| read(line.as_bytes(), HookEvent::BeforeCall);
        assert_eq!(before("").unwrap(), Said::default());
        assert_eq!(before(" \r").unwrap(), Said::default());
        assert_eq!(before("{}").unwrap(), Said::default());
        assert_eq!(before(r#"{"verdict":"allow"}"#).unwrap().verdict, Some(Word::Allow));
        assert_eq!(before(r#"{"args":{"a":1}}"#).unwrap().args, Some(json!({"a": 1})));
        for (line, told) in [
            ("ok", "no JSON object"),
            ("[\"allow\"]", "no JSON object"),
            (r#"{"verdict":"ask"}"#, "cannot be read"),
            (r#"{"answer":"once"}"#, "unknown field `answer`"),
            (r#"{"args":[1]}"#, "no JSON object"),
            (r#"{"verdict":"deny","args":{}}"#, "one of them"),
            (r#"{"verdict":"allow"} {}"#, "cannot be read"),
            (r#"{"verdict":null}"#, "cannot be read"),
            (r#"{"args":null}"#, "no JSON object"),
            (r#"{"note":null}"#, "cannot be read"),
            (r#"{"verdict":"allow","verdict":"deny"}"#, "duplicate field"),
        ] {
            assert!(before(line).unwrap_err().contains(told), "{line}: {:?}", before(line));
        }
        for event in [HookEvent::AfterCall, HookEvent::SessionStart, HookEvent::SessionEnd] {
            let said = read(br#"{"note":"n"}"#, event).unwrap();
            assert_eq!(said, Said { note: Some("n".into()), ..Said::default() });
            for line in [r#"{"verdict":"allow"}"#, r#"{"args":{}}"#, r#"{"reason":"x"}"#] {
                assert!(read(line.as_bytes(), event).unwrap_err().contains(event.name()), "{line}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = read(&line, HookEvent::BeforeCall);
        }
    }
}
