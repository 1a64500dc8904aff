//! `replay:FILE` or `replay:SESSION`: a model whose answers come from a record.
//!
//! In: a record, which is JSON lines. Each line is a [`Chapter`] as it stands in a journal's note, or a whole line of a
//! journal. Only what was said and answered counts; what tools put out is never taken from a record. Written by hand, a
//! call's arguments may be an object instead of a text, and its member `ok` says how it should end:
//!
//! ```json
//! {"agent":"said","message":{"text":"Make the tests pass."}}
//! {"agent":"answered","answer":{"text":"I run them first.","calls":[{"id":"a","name":"exec","args":{"command":"sh test.sh"},"ok":false}]}}
//! {"agent":"answered","answer":{"text":"They fail."}}
//! ```
//!
//! Out: the answers, one after the other. The model holds no state: which answer is next is read from the talk, and where
//! the talk is not that of the record, it says so instead of guessing.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use helve::store::{Home, Record};
use helve::{BoxFuture, Cancel};
use serde_json::{Value, json};

use crate::model::{Answer, Card, Listener, Model, ModelError, ModelErrorKind, Piece, Request};
use crate::story::Chapter;
use crate::talk::{Message, ModelMessage, UserMessage};

/// The provider's name.
const PROVIDER: &str = "replay";
/// A record of more bytes is not read.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
/// No talk of a record is made shorter on its account.
const WINDOW: u64 = 1_000_000_000;
/// Names that an error lists.
const MOST_NAMED: usize = 8;

/// A recorded session: the model's side of it.
#[derive(Clone, Debug)]
pub struct Recorded {
    card: Card,
    said: Vec<UserMessage>,
    answers: Vec<Answer>,
    ends: HashMap<String, bool>,
}

/// The model that a name means: a file's path, else a session in the state directory.
pub fn open(name: &str) -> Result<Arc<dyn Model>, ModelError> {
    if Path::new(name).exists() || name.contains('/') {
        return Ok(Arc::new(Recorded::read(Path::new(name))?));
    }
    let wrong = |error: helve::store::StoreError| {
        strange(format!("There is no record {name:?}: it is neither a file nor a session ({error})."))
            .hint("`helve log` shows the sessions; a file is named by its path.")
    };
    let home = Home::default_path().and_then(|path| Home::open(&path)).map_err(wrong)?;
    let records = crate::record::records(&home, name).map_err(wrong)?;
    Ok(Arc::new(Recorded::of(name, &records)?))
}

impl Recorded {
    /// Reads a file.
    pub fn read(file: &Path) -> Result<Recorded, ModelError> {
        let name = file.display().to_string();
        let wrong = |why: String| strange(format!("The record {name} cannot be read: {why}."));
        // A pipe is not even opened: that would wait for whoever writes into it.
        let is_file = std::fs::metadata(file).map_err(|error| wrong(error.to_string()))?.is_file();
        if !is_file {
            return Err(wrong("it is not a regular file".to_owned()));
        }
        let opened = File::open(file).map_err(|error| wrong(error.to_string()))?;
        if !opened.metadata().map_err(|error| wrong(error.to_string()))?.is_file() {
            return Err(wrong("it is not a regular file".to_owned()));
        }
        let mut text = String::new();
        opened.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
        if text.len() as u64 > MOST_BYTES {
            return Err(wrong(format!("it has more than {MOST_BYTES} bytes")));
        }
        Recorded::parse(&name, &text)
    }

    /// Reads a text of JSON lines; empty ones are passed over.
    pub fn parse(name: &str, text: &str) -> Result<Recorded, ModelError> {
        let mut recorded = Recorded::empty(name);
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |why: String| strange(format!("Line {} of the record {name} {why}.", at + 1));
            let value: Value =
                serde_json::from_str(line).map_err(|error| wrong(format!("is not JSON: {error}")))?;
            match (value.get("type").and_then(Value::as_str), value.get("body")) {
                (Some("note"), Some(body)) if body.get("agent").is_none() => {}
                (Some("note"), Some(body)) => recorded.take(body.clone()).map_err(wrong)?,
                (Some("outcome"), Some(body)) => recorded.take_end(body),
                (Some("planned" | "recovered"), Some(_)) => {}
                _ => recorded.take(value).map_err(wrong)?,
            }
        }
        recorded.checked()
    }

    /// The model's side of a journal.
    pub fn of(name: &str, records: &[Record]) -> Result<Recorded, ModelError> {
        let mut recorded = Recorded::empty(name);
        for record in records {
            match Chapter::of(record) {
                Some(chapter) => recorded.take_chapter(chapter),
                None if record.kind == helve::store::EntryKind::Outcome => recorded.take_end(&record.body),
                None => {}
            }
        }
        recorded.checked()
    }

    /// What the owner said first.
    pub fn task(&self) -> Option<&UserMessage> {
        self.said.iter().find(|message| !message.from_loop)
    }

    /// Whether a call should end well, by its id; none where the record does not say.
    pub fn should_end_well(&self, id: &str) -> Option<bool> {
        self.ends.get(id).copied()
    }

    /// The ids of all calls, in their order.
    pub fn calls(&self) -> impl Iterator<Item = &str> {
        self.answers.iter().flat_map(|answer| &answer.message.calls).map(|call| call.id.as_str())
    }

    fn empty(name: &str) -> Recorded {
        let card = Card {
            provider: PROVIDER.to_owned(),
            name: name.to_owned(),
            context_window: WINDOW,
            max_output: WINDOW / 4,
            price: None,
        };
        Recorded { card, said: Vec::new(), answers: Vec::new(), ends: HashMap::new() }
    }

    /// One chapter, perhaps written by hand.
    fn take(&mut self, mut chapter: Value) -> Result<(), String> {
        if chapter["agent"] == "answered" {
            let round = self.answers.len() + 1;
            let Some(answer) = chapter.get_mut("answer").filter(|answer| answer.is_object()) else {
                return Err(
                    "has no answer: write {\"agent\":\"answered\",\"answer\":{\"text\":…}}".to_owned()
                );
            };
            let mut calls = answer.get_mut("calls").and_then(Value::as_array_mut);
            for call in calls.iter_mut().flat_map(|calls| calls.iter_mut()) {
                if let (Some(id), Some(ok)) = (call["id"].as_str(), call["ok"].as_bool()) {
                    self.ends.insert(id.to_owned(), ok);
                }
                if call.get("args").is_some_and(Value::is_object) {
                    call["args"] = json!(call["args"].to_string());
                }
            }
            if answer.get("stop").is_none() {
                let wants = answer["calls"].as_array().is_some_and(|calls| !calls.is_empty());
                answer["stop"] = json!(if wants { "calls" } else { "done" });
            }
            if chapter.get("round").is_none() {
                chapter["round"] = json!(round);
            }
        }
        let chapter = serde_json::from_value(chapter).map_err(|error| format!("is no chapter: {error}"))?;
        self.take_chapter(chapter);
        Ok(())
    }

    fn take_chapter(&mut self, chapter: Chapter) {
        match chapter {
            Chapter::Begin { goes_on: false, .. } => {
                self.said.clear();
                self.answers.clear();
            }
            Chapter::Said { message } => self.said.push(message),
            // One without words and calls is asked for again, and leaves nothing in the talk.
            Chapter::Answered { answer, .. } => {
                if !answer.message.text.is_empty() || !answer.message.calls.is_empty() {
                    self.answers.push(*answer);
                }
            }
            Chapter::Begin { .. }
            | Chapter::Asked { .. }
            | Chapter::Summed { .. }
            | Chapter::Failed { .. }
            | Chapter::NotRun { .. }
            | Chapter::Shortened { .. }
            | Chapter::End { .. } => {}
        }
    }

    fn take_end(&mut self, outcome: &Value) {
        if let (Some(id), Some(ok)) = (outcome["id"].as_str(), outcome["ok"].as_bool()) {
            self.ends.insert(id.to_owned(), ok);
        }
    }

    fn checked(self) -> Result<Recorded, ModelError> {
        let name = &self.card.name;
        if self.answers.is_empty() {
            return Err(strange(format!("The record {name} holds no answer of a model.")));
        }
        let mut seen = std::collections::HashSet::new();
        if let Some(twice) = self.calls().find(|id| !seen.insert(*id)) {
            let message = format!("The record {name} has two calls with the id {twice:?}.");
            return Err(strange(message).hint("Every call of a talk has its own."));
        }
        Ok(self)
    }

    /// The answer that comes next in this talk.
    fn next(&self, talk: &[Message]) -> Result<&Answer, ModelError> {
        let mut before = talk.iter().filter_map(|message| match message {
            Message::Model(said) => Some(said),
            Message::User(_) | Message::Results { .. } => None,
        });
        let count = before.clone().count();
        let place = match before.next_back() {
            None => 0,
            Some(last) => self.place(last, count).ok_or_else(|| self.misfit(last, count))? + 1,
        };
        self.answers.get(place).ok_or_else(|| {
            let all = self.answers.len();
            strange(format!("The record {} has {all} answers, and another one is asked for.", self.card.name))
                .hint("The session went further than the recorded one.")
        })
    }

    /// Which of the answers it is. Where the talk was made shorter, its count does not tell.
    fn place(&self, last: &ModelMessage, count: usize) -> Option<usize> {
        let same = |answer: &Answer| {
            let ids = |message: &ModelMessage| -> Vec<String> {
                message.calls.iter().map(|call| call.id.clone()).collect()
            };
            ids(&answer.message) == ids(last) && (!last.calls.is_empty() || answer.message.text == last.text)
        };
        let counted = count - 1;
        if self.answers.get(counted).is_some_and(same) {
            return Some(counted);
        }
        self.answers.iter().rposition(same)
    }

    fn misfit(&self, last: &ModelMessage, count: usize) -> ModelError {
        let named: Vec<&str> = last.calls.iter().take(MOST_NAMED).map(|call| call.id.as_str()).collect();
        let what = if named.is_empty() {
            "an answer without calls".to_owned()
        } else {
            format!("an answer with the calls {}", named.join(", "))
        };
        strange(format!(
            "The talk does not fit the record {}: after {count} answers it has {what}, which is not in the record.",
            self.card.name
        ))
        .hint("Begin the talk anew, or choose the record that belongs to it.")
    }
}

impl Model for Recorded {
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
            if cancel.is_cancelled() {
                return Err(ModelError::new(ModelErrorKind::Cancelled, "The request was taken back."));
            }
            let answer = self.next(request.messages)?;
            if !answer.message.text.is_empty() {
                listener(Piece::Text { text: answer.message.text.clone() });
            }
            for (index, call) in answer.message.calls.iter().enumerate() {
                listener(Piece::Call { index, name: call.name.clone() });
                listener(Piece::Args { index, text: call.args.clone() });
            }
            Ok(answer.clone())
        })
    }
}

fn strange(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::Record, message)
}

#[cfg(test)]
mod tests;
