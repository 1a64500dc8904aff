//! Everything about one call, and its kept output.

use std::fmt::Write as _;
use std::io::{self, Read};

use helve::harmless::Harmless;
use helve::store::{Blobs, CallRow, CallStory, Home, Index, Undo, UndoRecord, UndoStage};
use serde_json::Value;

use super::sound::Journals;
use super::{find, table};
use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::{moment, refused, ui};

/// How much of an output is read before it is printed, where it cannot be copied unchanged.
const PIECE_BYTES: u64 = 64 * 1024;

/// Prints the whole story of a call.
pub(super) fn show(
    home: &Home,
    index: &mut Index,
    call: &str,
    journals: &mut Journals,
    json: bool,
) -> Result<(), Failure> {
    let row = find(home, index, call)?;
    let verified = journals.is_sound(&row.session);
    let story = read(index, &row)?;
    let records = Undo::open(home).ok();
    let undo = records.as_ref().and_then(|undo| undo.in_force(&row.call).ok()?.remove(&row.call));
    let undo = undo.map(|record| owner_command("undo", &record));
    let pending = records.and_then(|undo| match undo.get(&row.call).ok()? {
        Some((record, UndoStage::Pending)) => Some(owner_command("commit", &record)),
        _ => None,
    });
    if json {
        return ui::print_json(&serde_json::json!({
            "call": row.call,
            "session": story.session,
            "state": row.state,
            "can_undo": undo.is_some(),
            "pending": pending.is_some(),
            "verified": verified,
            "planned": story.planned,
            "outcome": story.outcome,
        }));
    }
    ui::print_styled(&tell(&row, &story, undo.as_deref(), pending.as_deref()))
}

/// What puts back or commits what a call changed or would change, from anywhere.
fn owner_command(act: &str, record: &UndoRecord) -> String {
    let here = std::env::current_dir().is_ok_and(|dir| dir.as_os_str() == record.workspace.as_str());
    match here {
        true => format!("helve {act} {}", record.call),
        false => format!("helve {act} --workspace {} {}", helve::quote(&record.workspace), record.call),
    }
}

/// Prints the output of a call: the kept whole, else what the model read.
pub(super) fn output(
    home: &Home,
    index: &mut Index,
    call: &str,
    journals: &mut Journals,
) -> Result<(), Failure> {
    let row = find(home, index, call)?;
    journals.is_sound(&row.session);
    let outcome = read(index, &row)?.outcome;
    let outcome = outcome.ok_or_else(|| {
        Failure::not_found(format!("the call {} has no outcome: it was cut, or still runs", row.call))
    })?;
    let Some(id) = outcome["truncated"]["blob"].as_str() else {
        return print_output(text(&outcome).as_bytes());
    };
    print_output(Blobs::open(home, 0)?.open_blob(id)?)
}

pub(crate) fn read(index: &mut Index, row: &CallRow) -> Result<CallStory, Failure> {
    index.story(&row.call)?.ok_or_else(|| {
        let (call, session) = (&row.call, &row.session);
        Failure::not_found(format!(
            "the journal of {session} no longer has the call {call}. Run `helve verify {session}`"
        ))
    })
}

/// Unchanged into a file or a pipe; made harmless on a terminal.
fn print_output(bytes: impl Read) -> Result<(), Failure> {
    if !ui::stdout_is_terminal() {
        return ui::print_bytes(bytes);
    }
    let cannot = |error: io::Error| Failure::internal(format!("the output cannot be read: {error}"));
    let mut pieces = Pieces::new(bytes);
    while let Some(text) = pieces.next().map_err(cannot)? {
        ui::print_bytes(text.as_bytes())?;
    }
    Ok(())
}

/// An output of any length as harmless text, piece by piece. A character that lies across two pieces stays whole.
struct Pieces<R> {
    from: R,
    stream: Harmless,
    ended: bool,
}

impl<R: Read> Pieces<R> {
    fn new(from: R) -> Self {
        Pieces { from, stream: Harmless::default(), ended: false }
    }

    fn next(&mut self) -> io::Result<Option<String>> {
        if self.ended {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.ended = (&mut self.from).take(PIECE_BYTES).read_to_end(&mut bytes)? == 0;
        let mut text = String::new();
        self.stream.push(&bytes, &mut |part| text.push_str(part));
        if self.ended {
            self.stream.finish(&mut |part| text.push_str(part));
        }
        Ok(Some(text))
    }
}

/// What the model read.
fn text(outcome: &Value) -> String {
    let blocks = outcome["content"].as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// What the owner's hooks said, each on a line.
fn hooks(body: &Value) -> impl Iterator<Item = String> + '_ {
    body["hooks"].as_array().into_iter().flatten().map(|hook| {
        let word = |name: &str| hook[name].as_str().unwrap_or_default();
        let more = [word("reason"), word("note")].into_iter().filter(|text| !text.is_empty());
        let more: Vec<&str> = more.collect();
        let from = match &hook["args"] {
            Value::Null => String::new(),
            args => format!(" {args}"),
        };
        format!("{} said {}{from} {}", word("hook"), word("said"), more.join("; ")).trim_end().to_owned()
    })
}

fn tell(row: &CallRow, story: &CallStory, undo: Option<&str>, pending: Option<&str>) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "{}  {}", ui::styled(ui::STRONG, &format!("{name:9}")), harmless(value));
    };
    line("call", &row.call);
    line("session", &story.session);
    line("time", &format!("{} UTC", moment::show(row.at_us)));
    line("tool", row.tool.as_deref().unwrap_or("?"));
    let planned = &story.planned;
    for name in ["lane", "caller", "client", "id", "args"] {
        match &planned[name] {
            Value::Null => {}
            Value::String(text) => line(name, text),
            value => line(name, &value.to_string()),
        }
    }
    let decision = if planned["decision"].is_null() {
        story.outcome.as_ref().map(|outcome| &outcome["decision"])
    } else {
        Some(&planned["decision"])
    };
    if let Some(decision) = decision.filter(|decision| !decision.is_null()) {
        let word = |name: &str| decision[name].as_str().unwrap_or_default();
        line("decision", format!("{} by {} {}", word("verdict"), word("rule"), word("reason")).trim_end());
    }
    for hook in hooks(planned).chain(story.outcome.iter().flat_map(hooks)) {
        line("hook", &hook);
    }
    let (_, state) = table::state(row);
    let duration = row.duration_us.map(|us| format!(" in {}", moment::show_duration(us))).unwrap_or_default();
    line("state", &format!("{state}{duration}"));
    if let Some(undo) = undo {
        line("undo", undo);
    }
    if let Some(commit) = pending {
        line("waits for", commit);
    }
    if let Some(outcome) = &story.outcome {
        if let Some(backend) = outcome["sandbox"]["backend"].as_str() {
            let layers = outcome["sandbox"]["layers"].as_array().into_iter().flatten();
            let layers: Vec<&str> = layers.filter_map(Value::as_str).collect();
            let layers = if layers.is_empty() { "no layers".to_owned() } else { layers.join(", ") };
            line("sandbox", &format!("{backend} ({layers})"));
        }
        let (denied, more) = refused::of_details(&outcome["details"]);
        for one in &denied {
            line("refused", &one_line(&format!("{} ({})", one.what(), one.rule), 300));
        }
        if more > 0 {
            line("refused", &format!("{more} more"));
        }
        if let Some(message) = outcome["error"]["message"].as_str() {
            line("error", message);
        }
        if let Some(left_out) = outcome["truncated"]["bytes"].as_u64() {
            let blob = outcome["truncated"]["blob"].as_str().unwrap_or("nothing");
            line("left out", &format!("{left_out} bytes; the whole is kept as {blob}"));
        }
        let text = text(outcome);
        let _ = write!(out, "\n{}", harmless(&text));
        if !text.ends_with('\n') {
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn in_pieces(bytes: &[u8]) -> Vec<String> {
        let mut pieces = Pieces::new(bytes);
        std::iter::from_fn(|| pieces.next().unwrap()).collect()
    }

    #[test]
    fn what_lies_across_two_pieces_stays_whole() {
        let size = usize::try_from(PIECE_BYTES).unwrap();
        for across in ["€", "\r\n", "\u{202e}"] {
            for before in size - across.len()..=size {
                let text = format!("{}{across}z", "a".repeat(before));
                let pieces = in_pieces(text.as_bytes());
                assert!(pieces.len() > 1);
                assert_eq!(pieces.concat(), harmless(&text), "{across:?} after {before}");
            }
        }
        assert_eq!(in_pieces(b"a\xe2\x82").concat(), "a\u{fffd}", "a character that never ends is marked");
        assert_eq!(in_pieces(b"").concat(), "");
    }
}
