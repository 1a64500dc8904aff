//! What must hold whatever a model answers, and what a scenario wants beyond that.

use helve::store::{EntryKind, verify};
use helve_agent::events::Ending;
use helve_agent::run::Agent;
use helve_agent::talk::Message;
use serde::Deserialize;
use serde_json::Value;

use super::script::{Seen, from_model, valid};
use super::{Place, SECRET, SESSION};

/// What a scenario wants. What it does not name may be as it likes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Wanted {
    /// The ending's name.
    ending: String,
    /// Part of the last words.
    text: Option<String>,
    /// All of the last words.
    last_words: Option<String>,
    /// Whether the answer is told to be not whole.
    cut: Option<bool>,
    /// The calls in the journal with how each ended: `echo ok`, `echo invalid_params`.
    calls: Option<Vec<String>>,
    /// How many calls are in the journal.
    call_count: Option<usize>,
    /// Parts of results in the talk, in this order.
    results: Vec<String>,
    /// Parts of what the loop said, in this order.
    notes: Vec<String>,
    /// Parts of what the owner said, in this order.
    owner: Vec<String>,
    /// How often the model was asked, summaries included.
    requests: Option<usize>,
    /// How often it was asked without being allowed to call.
    without_calls: Option<usize>,
    summaries: Option<usize>,
    /// How often the talk was made shorter, at least.
    shortened: Option<usize>,
    /// The largest request, in bytes.
    largest: Option<usize>,
    /// What must be in no line of the journal.
    absent: Vec<String>,
    /// Nothing with this in its command line may still run.
    no_process: Option<String>,
    /// Files of the workspace that must be there.
    files: Vec<String>,
    /// The longest that it may take, in milliseconds.
    within_ms: Option<u64>,
}

impl Wanted {
    /// What is wanted of a model behind a server, which is asked again by itself and has its own words for errors.
    pub(crate) fn served(&self) -> Wanted {
        let text = self.text.clone().filter(|_| self.ending != "model");
        let (requests, without_calls, summaries, largest) = (None, None, None, None);
        Wanted { text, requests, without_calls, summaries, largest, ..self.clone() }
    }
}

/// What happened.
pub(crate) struct Told<'a> {
    pub(crate) place: &'a Place,
    pub(crate) agent: &'a Agent,
    pub(crate) seen: Seen,
    pub(crate) events: &'a [Value],
    pub(crate) ending: Ending,
    pub(crate) took_ms: u64,
}

/// Two talks must be the same.
pub(crate) fn same(what: &str, one: &[Message], other: &[Message]) -> Result<(), String> {
    if one == other {
        return Ok(());
    }
    let place =
        one.iter().zip(other).position(|(one, other)| one != other).unwrap_or(one.len().min(other.len()));
    Err(format!("{what}: message {place} is {:?}\nand should be {:?}", one.get(place), other.get(place)))
}

/// What must hold whatever happened.
pub(crate) fn always(told: &Told<'_>) -> Result<(), String> {
    valid(told.agent.messages())?;
    let problems = &told.seen.problems;
    if !problems.is_empty() {
        return Err(format!("a request was wrong: {}", problems.join("; ")));
    }
    let records =
        helve_agent::record::records(&told.place.home(), SESSION).map_err(|error| error.to_string())?;
    same("told again", &helve_agent::record::messages(&records), told.agent.messages())?;
    let report = verify(&told.place.home(), SESSION, None).map_err(|error| error.to_string())?;
    if !report.is_ok() || !report.cut_calls.is_empty() {
        return Err(format!("the journal: {report:?}"));
    }
    let count = |kind| records.iter().filter(|record| record.kind == kind).count();
    if count(EntryKind::Planned) != count(EntryKind::Outcome) {
        return Err("a call was planned and has no outcome".to_owned());
    }
    let journal = serde_json::to_string(&records).unwrap();
    if journal.contains(SECRET) || serde_json::to_string(told.agent.messages()).unwrap().contains(SECRET) {
        return Err("the secret is in journal or talk".to_owned());
    }
    let name = |event: &Value| event["event"].as_str().unwrap_or_default().to_owned();
    let (first, last) = (told.events.first().map(name), told.events.last().map(name));
    if (first.as_deref(), last.as_deref()) != (Some("begin"), Some("end")) {
        return Err(format!("the events go from {first:?} to {last:?}"));
    }
    let last_words = &told.events[told.events.len() - 1]["text"];
    if last_words.as_str().is_none_or(|text| text.trim().is_empty()) {
        return Err("there are no last words".to_owned());
    }
    Ok(())
}

/// What one scenario wants.
pub(crate) fn wanted(told: &Told<'_>, want: &Wanted) -> Result<(), String> {
    let end = &told.events[told.events.len() - 1];
    let text = end["text"].as_str().unwrap_or_default();
    if told.ending.name() != want.ending {
        return Err(format!("it ended with {:?}: {text}", told.ending));
    }
    if let Some(part) = want.text.as_ref().filter(|part| !text.contains(*part)) {
        return Err(format!("the last words are {text:?}, without {part:?}"));
    }
    let records =
        helve_agent::record::records(&told.place.home(), SESSION).map_err(|error| error.to_string())?;
    equal("last words", Some(&text), want.last_words.as_deref().as_ref())?;
    equal("cut", Some(&(end["cut"] == true)), want.cut.as_ref())?;
    let calls: Vec<String> = records
        .iter()
        .filter(|record| record.kind == EntryKind::Outcome)
        .map(|record| {
            let how = record.body["error"]["kind"].as_str().unwrap_or("ok");
            format!("{} {how}", record.body["tool"].as_str().unwrap_or_default())
        })
        .collect();
    equal("calls", Some(&calls), want.calls.as_ref())?;
    equal("number of calls", Some(&calls.len()), want.call_count.as_ref())?;
    let (mut results, mut notes, mut owner) = (Vec::new(), Vec::new(), Vec::new());
    for message in told.agent.messages() {
        match message {
            Message::Results { results: some } => results.extend(some.iter().map(|one| one.text.as_str())),
            Message::User(said) if said.from_loop => notes.push(said.text.as_str()),
            Message::User(said) => owner.push(said.text.as_str()),
            Message::Model(_) => {}
        }
    }
    in_order("results", &results, &want.results)?;
    in_order("notes", &notes, &want.notes)?;
    in_order("owner", &owner, &want.owner)?;
    let seen = &told.seen;
    equal("requests", Some(&seen.requests), want.requests.as_ref())?;
    equal("requests without calls", Some(&seen.without_calls), want.without_calls.as_ref())?;
    equal("summaries", Some(&seen.summaries), want.summaries.as_ref())?;
    let shortened = told.events.iter().filter(|event| event["event"] == "shortened").count();
    if want.shortened.is_some_and(|least| shortened < least) {
        return Err(format!("the talk was made shorter {shortened} times"));
    }
    if want.largest.is_some_and(|most| seen.largest > most) {
        return Err(format!("a request has {} bytes", seen.largest));
    }
    let journal = serde_json::to_string(&records).unwrap();
    if let Some(there) = want.absent.iter().find(|part| journal.contains(*part)) {
        return Err(format!("{there:?} is in the journal"));
    }
    if let Some(missing) = want.files.iter().find(|name| !told.place.workspace().join(name).exists()) {
        return Err(format!("there is no file {missing}"));
    }
    if want.within_ms.is_some_and(|most| told.took_ms > most) {
        return Err(format!("it took {} ms", told.took_ms));
    }
    match want.no_process.as_ref().filter(|part| runs(part)) {
        Some(part) => Err(format!("{part:?} still runs")),
        None => Ok(()),
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    is: Option<&T>,
    wanted: Option<&T>,
) -> Result<(), String> {
    match wanted {
        Some(wanted) if is != Some(wanted) => Err(format!("{what}: {is:?}, not {wanted:?}")),
        _ => Ok(()),
    }
}

/// Each part must be in one of the texts, in this order.
fn in_order(what: &str, texts: &[&str], parts: &[String]) -> Result<(), String> {
    let mut rest = texts.iter();
    for part in parts {
        if !rest.any(|text| text.contains(part.as_str())) {
            return Err(format!("{what}: no {part:?} at its place in {texts:#?}"));
        }
    }
    Ok(())
}

/// Whether a process with this in its command line runs.
fn runs(part: &str) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.into_iter().any(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(part)
    })
}

/// How many calls a talk has.
pub(crate) fn calls_of(messages: &[Message]) -> usize {
    from_model(messages).map(|said| said.calls.len()).sum()
}
