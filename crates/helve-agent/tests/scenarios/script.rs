//! A model whose answers stand in a script. It looks at every request: what it is asked must always be valid.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use helve::{BoxFuture, Cancel};
use helve_agent::control::Control;
use helve_agent::model::{Answer, Card, Listener, Model, ModelError, ModelErrorKind, Piece, Price, Request};
use helve_agent::talk::{Kept, Message, ModelMessage, Stop, ToolUse, Usage};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Scenario, check};

/// What is known of the scripted model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CardOf {
    pub(crate) window: u64,
    pub(crate) max_output: u64,
    pub(crate) price: Option<u64>,
    /// It takes no request of more bytes.
    pub(crate) too_long: Option<usize>,
}

impl Default for CardOf {
    fn default() -> Self {
        CardOf { window: 200_000, max_output: 4_000, price: None, too_long: None }
    }
}

/// One answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Reply {
    pub(crate) text: String,
    /// `[name, args]` or `[name, args, id]`; arguments that are no text are written as JSON. `$N*x` in a text is N times x,
    /// `$round` the number of the request.
    pub(crate) calls: Vec<Value>,
    pub(crate) stop: Option<Stop>,
    /// Input, cached, output.
    pub(crate) usage: [u64; 3],
    pub(crate) kept: bool,
    pub(crate) error: Option<ModelErrorKind>,
    /// It answers only when it is told to end, or not even then.
    pub(crate) hangs: bool,
    pub(crate) ignores_cancel: bool,
    pub(crate) sleep_ms: u64,
    /// What the owner says meanwhile.
    pub(crate) steer: Option<String>,
    pub(crate) stop_run: bool,
    /// So many times one after the other.
    pub(crate) times: Option<usize>,
    /// Each call so many times.
    pub(crate) each: Option<usize>,
}

pub(crate) struct Scripted {
    card: Card,
    too_long: Option<usize>,
    replies: Mutex<VecDeque<Reply>>,
    summary: Option<Reply>,
    control: Control,
    seen: Mutex<Seen>,
}

/// What the model was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) requests: usize,
    pub(crate) summaries: usize,
    pub(crate) without_calls: usize,
    pub(crate) largest: usize,
    pub(crate) problems: Vec<String>,
    pub(crate) last: String,
}

impl Scripted {
    pub(crate) fn new(scenario: &Scenario, control: Control) -> Scripted {
        let card = &scenario.card;
        let replies =
            scenario.model.iter().flat_map(|reply| vec![reply.clone(); reply.times.unwrap_or(1)]).collect();
        Scripted {
            card: Card {
                provider: "script".into(),
                name: "one".into(),
                context_window: card.window,
                max_output: card.max_output,
                price: card.price.map(|price| Price { input: price, cached: price, output: price }),
            },
            too_long: card.too_long,
            replies: Mutex::new(replies),
            summary: scenario.summary.clone(),
            control,
            seen: Mutex::default(),
        }
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    /// Looks at a request and takes the answer to it.
    fn next(&self, request: &Request<'_>) -> (Reply, usize) {
        let mut seen = self.seen.lock().unwrap();
        let size = serde_json::to_string(request.messages).unwrap().len();
        seen.requests += 1;
        seen.largest = seen.largest.max(size);
        seen.last = serde_json::to_string(&request.messages.last()).unwrap();
        seen.problems.extend(check::valid(request.messages).err());
        let asks_for_summary = request.tools.is_empty();
        if request.system != "You are tested." && !asks_for_summary {
            seen.problems.push("another system prompt".to_owned());
        }
        seen.without_calls += usize::from(!request.may_call && !asks_for_summary);
        let number = seen.requests;
        if self.too_long.is_some_and(|most| size > most) {
            return (Reply { error: Some(ModelErrorKind::TooLong), ..Reply::default() }, number);
        }
        if asks_for_summary {
            seen.summaries += 1;
            let plain = || Reply { text: "what was done".into(), ..Reply::default() };
            return (self.summary.clone().unwrap_or_else(plain), number);
        }
        let done = || Reply { text: "done".into(), ..Reply::default() };
        (self.replies.lock().unwrap().pop_front().unwrap_or_else(done), number)
    }
}

/// The text with what stands for more of it put in.
pub(crate) fn expanded(text: &str, round: usize) -> String {
    if let Some((count, what)) = text.strip_prefix('$').and_then(|rest| rest.split_once('*'))
        && let Ok(count) = count.parse::<usize>()
    {
        return what.replace("$round", &round.to_string()).repeat(count);
    }
    text.replace("$round", &round.to_string())
}

fn expand(value: &mut Value, round: usize) {
    match value {
        Value::String(text) => *text = expanded(text, round),
        Value::Array(items) => items.iter_mut().for_each(|item| expand(item, round)),
        Value::Object(members) => members.values_mut().for_each(|member| expand(member, round)),
        _ => {}
    }
}

pub(crate) fn tool_use(call: &Value, place: usize, round: usize) -> ToolUse {
    let mut args = call[1].clone();
    expand(&mut args, round);
    let args = match args {
        Value::String(text) => text,
        value => value.to_string(),
    };
    let id = call[2].as_str().map_or_else(|| format!("r{round}_{place}"), str::to_owned);
    ToolUse { id, name: expanded(call[0].as_str().unwrap_or_default(), round), args }
}

impl Model for Scripted {
    fn card(&self) -> &Card {
        &self.card
    }

    fn answer<'a>(
        &'a self,
        request: Request<'a>,
        listener: Listener<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Answer, ModelError>> {
        Box::pin(async move {
            let (reply, round) = self.next(&request);
            if let Some(text) = &reply.steer {
                self.control.steer(text.clone());
            }
            if reply.stop_run {
                self.control.stop_run();
            }
            if reply.sleep_ms > 0 {
                tokio::time::sleep(Duration::from_millis(reply.sleep_ms)).await;
            }
            if reply.ignores_cancel {
                std::future::pending::<()>().await;
            }
            if reply.hangs {
                cancel.cancelled().await;
                return Err(ModelError::new(ModelErrorKind::Cancelled, "taken back"));
            }
            if let Some(kind) = reply.error {
                return Err(ModelError::new(kind, "as the script wants"));
            }
            let text = expanded(&reply.text, round);
            listener(Piece::Text { text: text.clone() });
            let each = reply.calls.iter().flat_map(|call| vec![call; reply.each.unwrap_or(1)]);
            let calls: Vec<ToolUse> =
                each.enumerate().map(|(place, call)| tool_use(call, place, round)).collect();
            for (index, call) in calls.iter().enumerate() {
                listener(Piece::Call { index, name: call.name.clone() });
                listener(Piece::Args { index, text: call.args.clone() });
            }
            let stop = if calls.is_empty() { Stop::Done } else { Stop::Calls };
            let [input, cached, output] = reply.usage;
            let kept = reply.kept.then(|| Kept { provider: "script".into(), value: json!({"signed": text}) });
            Ok(Answer {
                message: ModelMessage { text, calls, kept },
                stop: reply.stop.unwrap_or(stop),
                usage: Usage { input, cached, output },
                model: "one".into(),
            })
        })
    }
}

/// The messages of a talk that are from the model.
pub(crate) fn from_model(messages: &[Message]) -> impl Iterator<Item = &ModelMessage> {
    messages.iter().filter_map(|message| match message {
        Message::Model(said) => Some(said),
        _ => None,
    })
}
