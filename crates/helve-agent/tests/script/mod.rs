//! A model whose answers stand in a script. It looks at every request: what it is asked must always be valid.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use helve::{BoxFuture, Cancel};
use helve_agent::control::Control;
use helve_agent::model::{Answer, Card, Listener, Model, ModelError, ModelErrorKind, Piece, Price, Request};
use helve_agent::talk::{Kept, Message, ModelMessage, Stop, ToolUse, Usage, UserMessage};
use serde::Deserialize;
use serde_json::{Value, json};

/// What every scripted model is told of itself.
pub(crate) const SYSTEM: &str = "You are tested.";

/// What is known of the scripted model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CardOf {
    pub(crate) window: u64,
    pub(crate) max_output: u64,
    pub(crate) price: Option<u64>,
    /// It takes no request of more bytes.
    pub(crate) too_long: Option<usize>,
    /// It counts a token for every four bytes of a request, whatever an answer says of its usage.
    pub(crate) counts: bool,
}

impl Default for CardOf {
    fn default() -> Self {
        CardOf { window: 200_000, max_output: 4_000, price: None, too_long: None, counts: false }
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
    counts: bool,
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
    /// The names of the tools that it was shown, each time that they changed.
    pub(crate) tools: Vec<Vec<String>>,
}

impl Scripted {
    /// A model that gives these answers, and after them says that it is done. Where it is asked for a summary it gives that
    /// one.
    pub(crate) fn new(
        card: &CardOf,
        replies: &[Reply],
        summary: Option<Reply>,
        control: Control,
    ) -> Scripted {
        let replies =
            replies.iter().flat_map(|reply| vec![reply.clone(); reply.times.unwrap_or(1)]).collect();
        Scripted {
            card: Card {
                provider: "script".into(),
                name: "one".into(),
                context_window: card.window,
                max_output: card.max_output,
                price: card.price.map(|price| Price::plain(price, price, price)),
            },
            too_long: card.too_long,
            counts: card.counts,
            replies: Mutex::new(replies),
            summary,
            control,
            seen: Mutex::default(),
        }
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    /// Looks at a request and takes the answer to it.
    fn next(&self, request: &Request<'_>) -> (Reply, usize) {
        let (mut reply, number, size) = self.taken(request);
        if self.counts {
            reply.usage = [size as u64 / 4, 0, 50];
        }
        (reply, number)
    }

    fn taken(&self, request: &Request<'_>) -> (Reply, usize, usize) {
        let mut seen = self.seen.lock().unwrap();
        let size = serde_json::to_string(request.messages).unwrap().len();
        seen.requests += 1;
        seen.largest = seen.largest.max(size);
        seen.last = serde_json::to_string(&request.messages.last()).unwrap();
        seen.problems.extend(valid(request.messages).err());
        let asks_for_summary = request.tools.is_empty();
        if request.system != SYSTEM && !asks_for_summary {
            seen.problems.push("another system prompt".to_owned());
        }
        let names: Vec<String> = request.tools.iter().map(|spec| spec.name.clone()).collect();
        if !asks_for_summary && seen.tools.last() != Some(&names) {
            seen.tools.push(names);
        }
        seen.without_calls += usize::from(!request.may_call && !asks_for_summary);
        let number = seen.requests;
        if self.too_long.is_some_and(|most| size > most) {
            return (Reply { error: Some(ModelErrorKind::TooLong), ..Reply::default() }, number, size);
        }
        if asks_for_summary {
            seen.summaries += 1;
            let plain = || Reply { text: "what was done".into(), ..Reply::default() };
            return (self.summary.clone().unwrap_or_else(plain), number, size);
        }
        let done = || Reply { text: "done".into(), ..Reply::default() };
        (self.replies.lock().unwrap().pop_front().unwrap_or_else(done), number, size)
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
                usage: Usage { input, cached, output, ..Usage::default() },
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

/// Whether a provider would take this talk.
pub(crate) fn valid(messages: &[Message]) -> Result<(), String> {
    if !matches!(messages.first(), Some(Message::User(_))) {
        return Err("the talk does not begin with a user's message".to_owned());
    }
    let mut ids = HashSet::new();
    let mut open: Option<Vec<&str>> = None;
    for (place, message) in messages.iter().enumerate() {
        let wrong = |why: &str| Err(format!("message {place}: {why}"));
        match (message, open.take()) {
            (Message::Results { results }, Some(wanted)) => {
                let given: Vec<&str> = results.iter().map(|result| result.id.as_str()).collect();
                if given != wanted {
                    return wrong(&format!("results of {given:?} for calls of {wanted:?}"));
                }
                if results.iter().any(|result| result.text.is_empty() && result.images.is_empty()) {
                    return wrong("an empty result");
                }
            }
            (Message::Results { .. }, None) => return wrong("results without calls"),
            (_, Some(wanted)) => return wrong(&format!("the calls {wanted:?} have no result")),
            (Message::User(UserMessage { text, images, .. }), None) => {
                if text.is_empty() && images.is_empty() {
                    return wrong("an empty message");
                }
            }
            (Message::Model(said), None) => {
                if said.text.trim().is_empty() && said.calls.is_empty() {
                    return wrong("an empty answer");
                }
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                for call in &said.calls {
                    if !ids.insert(&call.id) {
                        return wrong(&format!("the id {} is there twice", call.id));
                    }
                    let name = (1..=64).contains(&call.name.len()) && call.name.chars().all(plain);
                    if !name || call.id.is_empty() || !call.id.chars().all(plain) {
                        return wrong(&format!("no provider takes {} {}", call.name, call.id));
                    }
                }
                if !said.calls.is_empty() {
                    open = Some(said.calls.iter().map(|call| call.id.as_str()).collect());
                }
            }
        }
    }
    match open {
        Some(wanted) => Err(format!("the calls {wanted:?} have no result")),
        None => Ok(()),
    }
}
