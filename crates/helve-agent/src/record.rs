//! The talk told again from a journal.
//!
//! In: the records of a session. Out: the messages as the model was shown them, ready to go on from. A journal may have been
//! cut, changed by hand or shared with other programs: whatever it holds, the talk begins with a user's message, and every
//! call in it has exactly one result, in call order. A call without an outcome gets a result that says so.
//!
//! Deliberately not here: whether the journal can be trusted (`helve verify` says that).

mod calls;

use std::collections::{HashMap, VecDeque};

use helve::store::{EntryKind, Home, Record, StoreError, Tail};
use helve::{CallId, Content};
use serde_json::Value;

use crate::story::Chapter;
use crate::talk::{Message, ModelMessage, ToolAnswer, ToolUse, UserMessage};

pub use calls::{PastCall, calls, uncommitted};

/// What a model reads of a call whose end nobody knows.
pub const WAS_CUT: &str = "Error: The call was cut: Helve ended before it did, and what it did until then is not known.\n\n\
                           Look at what is there before you do it again.";

/// What stands where the beginning of a talk is lost.
const NO_BEGINNING: &str = "(The beginning of this talk is not in its record.)";

/// A session of more bytes than this is not read as a whole.
pub(crate) const MOST_BYTES: u64 = 1024 * 1024 * 1024;

/// All records of a session, in their order.
pub fn records(home: &Home, session: &str) -> Result<Vec<Record>, StoreError> {
    let mut tail = Tail::open(home, session, 0)?;
    let mut records = Vec::new();
    loop {
        // Before all of it is held; and it may grow meanwhile.
        if tail.length()? > MOST_BYTES {
            return Err(StoreError::SessionTooLarge { session: session.to_owned(), limit: MOST_BYTES });
        }
        match tail.next_record()? {
            Some(record) => records.push(record),
            None => return Ok(records),
        }
    }
}

/// The talk that these records of a session hold, the newest if there are several.
pub fn messages(records: &[Record]) -> Vec<Message> {
    let chapters: Vec<(usize, Chapter)> = records
        .iter()
        .enumerate()
        .filter_map(|(place, record)| Some((place, Chapter::of(record)?)))
        .collect();
    let mut outcomes = Outcomes::of(records);
    let mut talk = Vec::new();
    for (number, (place, chapter)) in chapters.iter().enumerate() {
        match chapter {
            Chapter::Begin { goes_on: false, .. } => talk.clear(),
            Chapter::Said { message } => talk.push(Message::User(message.clone())),
            Chapter::Answered { answer, .. } => {
                let mut later = chapters.iter().skip(number + 1);
                let next = later.find(|(_, chapter)| matches!(chapter, Chapter::Answered { .. }));
                let until = next.map_or(records.len(), |(place, _)| *place);
                let results = answer
                    .message
                    .calls
                    .iter()
                    .map(|wanted| outcomes.answer(wanted, *place, until))
                    .collect();
                talk.push(Message::Model(answer.message.clone()));
                push_results(&mut talk, results);
            }
            Chapter::NotRun { results } => not_run(&mut talk, results),
            Chapter::Shortened { messages, .. } => talk.clone_from(messages),
            Chapter::Begin { .. }
            | Chapter::Asked { .. }
            | Chapter::Summed { .. }
            | Chapter::Failed { .. }
            | Chapter::End { .. } => {}
        }
    }
    sound(talk)
}

/// Puts in what the model was told of calls that have no outcome because they never ran.
fn not_run(talk: &mut [Message], told: &[ToolAnswer]) {
    let Some(Message::Results { results }) = talk.last_mut() else { return };
    for result in results.iter_mut().filter(|result| result.call.is_none()) {
        if let Some(told) = told.iter().find(|told| told.id == result.id) {
            result.clone_from(told);
        }
    }
}

/// What a model reads of a call without an outcome.
pub fn was_cut(wanted: &ToolUse) -> ToolAnswer {
    ToolAnswer::new(wanted, None, false, &[Content::text(WAS_CUT)])
}

fn push_results(talk: &mut Vec<Message>, results: Vec<ToolAnswer>) {
    if !results.is_empty() {
        talk.push(Message::Results { results });
    }
}

/// The same talk with exactly one result for each call, behind the message that wants it and in its order, and with a user's
/// message at its beginning. A talk that is so already stays as it is.
pub fn sound(talk: Vec<Message>) -> Vec<Message> {
    let mut whole = Vec::with_capacity(talk.len() + 1);
    if matches!(talk.first(), Some(Message::Model(_) | Message::Results { .. })) {
        whole.push(Message::User(UserMessage {
            text: NO_BEGINNING.to_owned(),
            from_loop: true,
            ..UserMessage::default()
        }));
    }
    let mut talk = talk.into_iter().peekable();
    while let Some(message) = talk.next() {
        match message {
            // Results that belong to no calls: the calls before took theirs.
            Message::Results { .. } => {}
            Message::User(_) => whole.push(message),
            Message::Model(ref said) => {
                let found = match talk.next_if(|next| matches!(next, Message::Results { .. })) {
                    Some(Message::Results { results }) => results,
                    _ => Vec::new(),
                };
                let results = in_order(said, found);
                whole.push(message);
                push_results(&mut whole, results);
            }
        }
    }
    whole
}

/// One result for each call, in call order.
fn in_order(said: &ModelMessage, found: Vec<ToolAnswer>) -> Vec<ToolAnswer> {
    let in_place = found.len() == said.calls.len()
        && found.iter().zip(&said.calls).all(|(result, wanted)| result.id == wanted.id);
    if in_place {
        return found;
    }
    let mut by_id: HashMap<String, VecDeque<ToolAnswer>> = HashMap::new();
    for result in found {
        by_id.entry(result.id.clone()).or_default().push_back(result);
    }
    let mut taken = |wanted: &ToolUse| by_id.get_mut(&wanted.id).and_then(VecDeque::pop_front);
    said.calls.iter().map(|wanted| taken(wanted).unwrap_or_else(|| was_cut(wanted))).collect()
}

/// The outcomes of a journal by the model's id of the call.
struct Outcomes<'a> {
    records: &'a [Record],
    /// The places of the outcomes with an id that no call has yet, in the journal's order.
    by_id: HashMap<&'a str, VecDeque<usize>>,
}

impl<'a> Outcomes<'a> {
    fn of(records: &'a [Record]) -> Self {
        let mut by_id: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for (place, record) in records.iter().enumerate() {
            if record.kind == EntryKind::Outcome
                && let Some(id) = record.body.get("id").and_then(Value::as_str)
            {
                by_id.entry(id).or_default().push_back(place);
            }
        }
        Outcomes { records, by_id }
    }

    /// The place of the next outcome with this id between two places. Those before are behind us for good.
    fn take(&mut self, id: &str, from: usize, until: usize) -> Option<usize> {
        let places = self.by_id.get_mut(id)?;
        while places.pop_front_if(|place| *place <= from).is_some() {}
        places.pop_front_if(|place| *place < until)
    }

    /// What came of a call that was wanted at `from`, told before `until`.
    fn answer(&mut self, wanted: &ToolUse, from: usize, until: usize) -> ToolAnswer {
        let Some(place) = self.take(&wanted.id, from, until) else { return was_cut(wanted) };
        let body = self.records.get(place).map_or(&Value::Null, |record| &record.body);
        let content = content(body);
        let call = body.get("call").and_then(|call| serde_json::from_value::<CallId>(call.clone()).ok());
        let ok = body.get("ok").and_then(Value::as_bool).unwrap_or(false);
        ToolAnswer::new(wanted, call, ok, &content)
    }
}

/// The blocks of an outcome; what is none is left out.
pub(crate) fn content(body: &Value) -> Vec<Content> {
    let blocks = body.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    blocks.iter().filter_map(|block| serde_json::from_value(block.clone()).ok()).collect()
}

#[cfg(test)]
mod tests;
