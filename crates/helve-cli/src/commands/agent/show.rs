//! A run as a person reads it: the model's words as they come, a line for each call and what came of it, diffs in colour, and
//! at the end of the screen what goes on. Or, for programs, its events, one a line.
//!
//! Standard output carries what the model says to the owner: on a terminal all of it as it comes, else its last words alone.
//! Everything else goes to standard error. Whatever a model or a tool wrote is made harmless first.
//!
//! Long file: one line for each event and its words, which are read side by side, and their tests.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use helve::harmless::{escaped, is_harmless};
use helve::{CallResult, ErrorKind};
use helve_agent::control::Control;
use helve_agent::events::{Bound, Ending, Event};
use helve_agent::model::{ModelErrorKind, Piece};
use helve_agent::talk::{ToolUse, Usage};
use serde_json::Value;

use super::live::Live;
use crate::commands::diff;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::{moment, ui};

/// How much of a call's arguments its line shows.
const ARGS_CHARS: usize = 160;
/// How many lines of a result are shown, and of one that failed.
const LINES: usize = 3;
const LINES_FAILED: usize = 8;
/// How many lines of a diff.
const DIFF_LINES: usize = 60;

/// Who reads along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A program: events as JSON.
    Program,
    /// A person.
    Person {
        /// Whether standard output is a terminal, on which the words of the model appear as they come.
        streams: bool,
    },
}

/// Shows one run.
pub(crate) struct Show {
    reader: Reader,
    control: Control,
    live: Live,
    began: Instant,
    /// Whether the words of the model end in the middle of a line.
    in_line: bool,
    /// The calls of the last answer.
    calls: HashMap<String, ToolUse>,
    /// How many of them were begun together, and which of those still run.
    together: usize,
    running: Vec<String>,
    /// The last words that were shown.
    shown: String,
    /// Nobody reads any more, or something else is wrong with our output.
    failure: Option<Failure>,
}

impl Show {
    pub(crate) fn new(reader: Reader, control: Control) -> Show {
        let live = Live::new(reader != Reader::Program && ui::has_status());
        Show {
            reader,
            control,
            live,
            began: Instant::now(),
            in_line: false,
            calls: HashMap::new(),
            together: 0,
            running: Vec::new(),
            shown: String::new(),
            failure: None,
        }
    }

    /// Whether something at the end of the screen moves.
    pub(crate) fn moves(&self) -> bool {
        self.live.is_on()
    }

    /// The owner types something while the model works.
    pub(crate) fn typed(&mut self, text: &str) {
        self.live.typed(text);
        self.tick();
    }

    /// The owner said something that the model hears when it is asked the next time.
    pub(crate) fn steered(&mut self, text: &str) {
        self.live.typed("");
        self.tell(&format!("{} {}\n", ui::styled(ui::STRONG, "you:"), visible(text)));
    }

    /// A moment passed.
    pub(crate) fn tick(&mut self) {
        if !self.in_line {
            self.live.draw();
        }
    }

    /// Shows an event.
    pub(crate) fn take(&mut self, event: &Event) {
        let written = match self.reader {
            Reader::Program => ui::heard::print_json(event),
            Reader::Person { streams } => self.person(event, streams),
        };
        if let Err(failure) = written {
            // Who cannot see what is done is not there to stop it.
            self.control.stop_run();
            self.failure.get_or_insert(failure);
        }
    }

    /// The end of it all, and whether everything could be written.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.live.stop();
        self.failure.map_or(Ok(()), Err)
    }

    fn person(&mut self, event: &Event, streams: bool) -> Result<(), Failure> {
        match event {
            Event::Begin { .. } => {}
            Event::Round { .. } => self.live.start("the model"),
            Event::Piece(piece) => self.piece(piece, streams)?,
            Event::Answer { text, calls, .. } => {
                self.end_line()?;
                self.calls = calls.iter().map(|call| (call.id.clone(), call.clone())).collect();
                self.shown.clone_from(text);
                // Words before calls are not the answer; they are told beside it.
                if !streams && !calls.is_empty() && !text.trim().is_empty() {
                    self.tell(&format!("{}\n", visible(text.trim())));
                }
            }
            Event::Calls { ids } => {
                self.end_line()?;
                self.together = ids.len();
                self.running.clone_from(ids);
                let mut text = String::new();
                for call in ids.iter().filter_map(|id| self.calls.get(id)) {
                    let _ = writeln!(text, "{} {}", ui::styled(ui::STRONG, ">"), headline(call, room(2)));
                }
                self.tell(&text);
                self.live.start(&self.running());
            }
            Event::Progress { message } => self.live.output(message),
            Event::Result { id, result } => {
                let text = self.result(id, result);
                self.tell(&text);
                self.running.retain(|running| running != id);
                if !self.running.is_empty() {
                    let label = self.running();
                    self.live.label(&label);
                }
            }
            Event::NotRun { id, text } => {
                self.end_line()?;
                let call = self.calls.get(id).map(|call| headline(call, room(2))).unwrap_or_default();
                let lines = text.lines().filter(|line| !line.trim().is_empty());
                let lines: String =
                    lines.map(|line| ui::styled(ui::FAINT, &one_line(line, room(4))) + "\n").collect();
                let word = ui::styled(ui::BAD, "not run");
                let lines = indented(&lines, LINES_FAILED);
                self.tell(&format!("{} {call}\n  {word}\n{lines}", ui::styled(ui::STRONG, ">")));
            }
            Event::Note { text } => self.beside(&format!("to the model: {}", one_line(text, 300))),
            Event::Hook { hook, text, failed: false } => {
                self.beside(&format!("the hook {}: {}", one_line(hook, 60), one_line(text, 300)));
            }
            Event::Hook { hook, text, failed: true } => {
                let text = format!("the hook {} failed: {}", one_line(hook, 60), one_line(text, 300));
                self.tell(&format!("{}\n", ui::styled(ui::CAREFUL, &text)));
            }
            Event::Shortened { tokens } => {
                self.beside(&format!(
                    "the talk was made shorter; it has about {} tokens now",
                    count(*tokens)
                ));
            }
            Event::End { ending, text, cut, usage, cost, about, rounds } => {
                self.live.stop();
                self.end_line()?;
                // What stopped it from outside is said below; its own last words are the answer.
                let stopped =
                    matches!(ending, Ending::Cancelled | Ending::Model { .. } | Ending::Unrecorded { .. });
                // Of an answer in several parts the last one was shown last.
                let shown = self.shown.trim();
                let told = streams && !shown.is_empty() && text.trim().ends_with(shown);
                if !told && !stopped && !text.trim().is_empty() {
                    ui::heard::print(&visible(text.trim()))?;
                }
                if *cut {
                    let text = "the answer is not whole: it became too long each time that it went on";
                    self.tell(&format!("{}\n", ui::styled(ui::CAREFUL, text)));
                }
                if let Some(why) = why(ending) {
                    self.tell(&format!("{}: {}\n", ui::styled(ui::BAD, "stopped"), visible(&why)));
                }
                let line = summary(*rounds, usage, *cost, *about, self.began.elapsed());
                self.tell(&format!("{}\n", ui::styled(ui::FAINT, &line)));
            }
        }
        Ok(())
    }

    fn piece(&mut self, piece: &Piece, streams: bool) -> Result<(), Failure> {
        match piece {
            Piece::Text { text } if streams => {
                if text.is_empty() {
                    return Ok(());
                }
                self.live.hide();
                let text = visible(text);
                ui::print_piece(&text)?;
                self.in_line = !text.ends_with('\n');
            }
            Piece::Text { .. } => {}
            Piece::Thought { text } => {
                self.live.label("the model thinks");
                self.live.output(text);
            }
            Piece::Call { name, .. } => {
                self.end_line()?;
                self.live.label(&format!("the model writes a call of {}", one_line(name, 40)));
            }
            Piece::Args { .. } => {}
            Piece::Again { after, why, usage: _ } => {
                self.end_line()?;
                let pause = moment::show_duration(u64::try_from(after.as_micros()).unwrap_or(u64::MAX));
                self.beside(&format!("asked again in {pause}: {}", one_line(why, 300)));
            }
        }
        Ok(())
    }

    /// What came of a call: how it ended, how long it took, its first lines or its diff.
    fn result(&self, id: &str, result: &CallResult) -> String {
        let mut text = String::new();
        let took = moment::show_duration(result.duration_us);
        let (style, word, lines) = match &result.error {
            None => (ui::GOOD, "ok".to_owned(), LINES),
            Some(error) if error.kind == ErrorKind::Cancelled => (ui::CAREFUL, "stopped".to_owned(), 0),
            Some(error) => (ui::BAD, error.kind.name().replace('_', " "), LINES_FAILED),
        };
        let which = match self.calls.get(id) {
            Some(call) if self.together > 1 => format!("{}: ", headline(call, 40)),
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "  {which}{} {}",
            ui::styled(style, &word),
            ui::styled(ui::FAINT, &format!("({took}{})", layers(result)))
        );
        if let Some(from) = &result.tainted {
            let note = format!("words of {} that nobody vouches for", one_line(from, 60));
            let _ = writeln!(text, "  {}", ui::styled(ui::CAREFUL, &note));
        }
        match result.details.get("diff").and_then(Value::as_str).filter(|diff| !diff.is_empty()) {
            Some(diff) => text.push_str(&indented(&diff::lines(diff), DIFF_LINES)),
            None => {
                let words = result.text();
                let head: String = words
                    .lines()
                    .filter(|line| !line.trim().is_empty())
                    .map(|line| ui::styled(ui::FAINT, &one_line(line, room(4))) + "\n")
                    .collect();
                text.push_str(&indented(&head, lines));
            }
        }
        text
    }

    /// What runs, in a few words.
    fn running(&self) -> String {
        match self.running.as_slice() {
            [id] => self.calls.get(id).map(|call| headline(call, 40)).unwrap_or_default(),
            ids => format!("{} calls", ids.len()),
        }
    }

    /// Ends the line in which the model's words stand.
    fn end_line(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.in_line) {
            ui::print_piece("\n")?;
        }
        Ok(())
    }

    /// Says something beside the words of the model.
    fn beside(&mut self, text: &str) {
        self.tell(&format!("{}\n", ui::styled(ui::FAINT, &format!("({text})"))));
    }

    fn tell(&mut self, text: &str) {
        ui::tell(text);
    }
}

/// The exit code that an ending has.
pub(crate) fn exit_code(ending: &Ending) -> u8 {
    match ending {
        Ending::Answered => 0,
        Ending::Bound { bound: Bound::Time } => ErrorKind::Timeout.exit_code(),
        Ending::Cancelled => ErrorKind::Cancelled.exit_code(),
        Ending::Unrecorded { .. } => ErrorKind::Internal.exit_code(),
        Ending::Bound { .. } | Ending::NoProgress | Ending::Model { .. } => 1,
    }
}

/// Why a run ended before the model was done; none if it was.
fn why(ending: &Ending) -> Option<String> {
    let bound = |what: &str, flag: &str, key: &str| format!("{what}. {flag} or `{key}` allows more");
    Some(match ending {
        Ending::Answered => return None,
        Ending::Cancelled => "as you wished. What was said is kept; --resume goes on with it".to_owned(),
        Ending::NoProgress => "the model did the same over and over".to_owned(),
        Ending::Bound { bound: Bound::Rounds } => {
            bound("the model was asked as often as it may be", "--max-rounds", "agent.rounds")
        }
        Ending::Bound { bound: Bound::Time } => bound("its time is up", "--max-time", "agent.time"),
        Ending::Bound { bound: Bound::Tokens } => {
            bound("its tokens are used up", "--max-tokens", "agent.tokens")
        }
        Ending::Bound { bound: Bound::Cost } => bound("it cost what it may", "--max-cost", "agent.cost"),
        Ending::Model { error } if error.kind == ModelErrorKind::Record => error.to_string(),
        Ending::Model { error } => format!("the model does not answer: {error}"),
        Ending::Unrecorded { message } => message.clone(),
    })
}

/// A run in one line.
pub(crate) fn summary(rounds: u64, usage: &Usage, cost: Option<u64>, about: bool, took: Duration) -> String {
    let times = if rounds == 1 { "1 round".to_owned() } else { format!("{rounds} rounds") };
    let took = moment::show_duration(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    format!("{times}, {}, {took}", spent(usage, cost, about))
}

/// Tokens, and what they cost where that is known, or `about` what where a provider did not count all of them.
pub(crate) fn spent(usage: &Usage, cost: Option<u64>, about: bool) -> String {
    let cached = match usage.cached {
        0 => String::new(),
        cached => format!(" ({} of them cached)", count(cached)),
    };
    let read = usage.input.saturating_add(usage.cached);
    let mut text = format!("{} tokens read{cached}, {} written", count(read), count(usage.output));
    if let Some(cost) = cost {
        let about = if about { "about " } else { "" };
        let _ = write!(text, ", {about}${}.{:04}", cost / 1_000_000, cost % 1_000_000 / 100);
    }
    text
}

/// A number that is easy to read.
fn count(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..10_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}M", number / 1_000_000),
    }
}

/// A call on one line: the tool, and its arguments as far as there is room.
pub(crate) fn headline(call: &ToolUse, room: usize) -> String {
    let args = one_line(&short(&call.args), ARGS_CHARS.min(room.saturating_sub(call.name.len() + 1).max(10)));
    let name = one_line(&call.name, 60);
    if args.is_empty() { name } else { format!("{name} {args}") }
}

/// The arguments without the notation around them: the one value there is, or names and values.
fn short(args: &str) -> String {
    let Ok(Value::Object(members)) = serde_json::from_str::<Value>(args) else { return args.to_owned() };
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if let Some(first) = members.get("command").filter(|command| command.is_string()) {
        return plain(first);
    }
    let mut members = members.iter();
    match (members.next(), members.next()) {
        (None, _) => String::new(),
        (Some((_, value)), None) => plain(value),
        (Some(first), Some(second)) => {
            let all = [first, second].into_iter().chain(members);
            let each = |(name, value): (&String, &Value)| {
                let value = one_line(&plain(value), 40);
                if name == "path" || name == "file_path" { value } else { format!("{name}={value}") }
            };
            all.map(each).collect::<Vec<_>>().join(" ")
        }
    }
}

/// Where it ran, if that is worth a word.
fn layers(result: &CallResult) -> &'static str {
    match &result.sandbox {
        Some(report) if report.layers.is_empty() => ", without a sandbox",
        _ => "",
    }
}

/// The first lines, each moved in.
fn indented(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut lines = text.lines();
    for line in lines.by_ref().take(most) {
        let _ = writeln!(out, "    {line}");
    }
    let rest = lines.count();
    if rest > 0 && most > 0 {
        let more = format!("… {rest} more {}", if rest == 1 { "line" } else { "lines" });
        let _ = writeln!(out, "    {}", ui::styled(ui::FAINT, &more));
    }
    out
}

/// How many characters fit into a row behind so many others.
fn room(taken: usize) -> usize {
    ui::stderr_columns().unwrap_or(120).saturating_sub(taken + 1).max(20)
}

/// The text with everything that a terminal would obey shown instead.
fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for ch in text.chars() {
        match ch {
            '\n' | '\t' => out.push(ch),
            ch if is_harmless(ch) => out.push(ch),
            ch => out.push_str(&escaped(ch)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_agent::model::ModelError;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    fn call(name: &str, args: &str) -> ToolUse {
        ToolUse { id: "1".into(), name: name.into(), args: args.into() }
    }

    #[test]
    fn a_call_has_one_short_line() {
        for (name, args, line) in [
            ("exec", r#"{"command":"cargo test\n -q","timeout":5}"#, "exec cargo test -q"),
            ("read_file", r#"{"path":"src/a.rs"}"#, "read_file src/a.rs"),
            ("grep", r#"{"pattern":"a b","path":"src"}"#, "grep pattern=a b src"),
            ("json", "{}", "json"),
            ("echo", r#"{"message":"\u001b[2J"}"#, "echo \\x1b[2J"),
            ("broken", "{\"a\":", "broken {\"a\":"),
        ] {
            assert_eq!(headline(&call(name, args), 80), line);
        }
        let long = format!("{{\"command\":\"{}\"}}", "x".repeat(500));
        assert_eq!(headline(&call("exec", &long), 30).chars().count(), 30);
    }

    #[test]
    fn every_ending_has_its_code_and_its_words() {
        let model = Ending::Model { error: ModelError::new(ModelErrorKind::Busy, "It is busy.") };
        let bound = |bound| Ending::Bound { bound };
        for (ending, code, words) in [
            (Ending::Answered, 0, None),
            (Ending::NoProgress, 1, Some("over and over")),
            (bound(Bound::Rounds), 1, Some("--max-rounds or `agent.rounds`")),
            (bound(Bound::Time), 124, Some("--max-time")),
            (bound(Bound::Tokens), 1, Some("--max-tokens")),
            (bound(Bound::Cost), 1, Some("--max-cost")),
            (Ending::Cancelled, 130, Some("--resume")),
            (model, 1, Some("does not answer: It is busy.")),
            (Ending::Unrecorded { message: "no disk".into() }, 70, Some("no disk")),
        ] {
            assert_eq!(exit_code(&ending), code, "{ending:?}");
            let said = why(&ending);
            assert_eq!(said.is_some(), words.is_some());
            assert!(said.zip(words).is_none_or(|(said, words)| said.contains(words)), "{ending:?}");
        }
    }

    #[test]
    fn a_run_is_summed_up() {
        let usage = Usage { input: 1_234, cached: 20_000, output: 345, ..Usage::default() };
        let line = summary(3, &usage, Some(12_345_678), false, Duration::from_millis(2_500));
        assert_eq!(line, "3 rounds, 21k tokens read (20k of them cached), 345 written, $12.3456, 2.5 s");
        let line = summary(1, &Usage::default(), None, false, Duration::from_secs(61));
        assert_eq!(line, "1 round, 0 tokens read, 0 written, 1 min 1 s");
        assert_eq!(spent(&Usage::default(), Some(50_000), true), "0 tokens read, 0 written, about $0.0500");
    }

    #[test]
    fn long_texts_are_cut_with_a_count() {
        assert_eq!(indented("a\nb\n", 2), "    a\n    b\n");
        let text = anstream::adapter::strip_str(&indented("a\nb\nc\nd\n", 2)).to_string();
        assert_eq!(text, "    a\n    b\n    … 2 more lines\n");
        assert_eq!(indented("a\n", 0), "");
    }

    proptest! {
        #[test]
        fn nothing_that_a_terminal_obeys_is_left(text in "\\PC{0,20}[\u{0}-\u{1f}\u{7f}-\u{9f}\u{202e}]{0,5}\\PC{0,9}") {
            prop_assert!(visible(&text).chars().all(|ch| matches!(ch, '\n' | '\t') || is_harmless(ch)));
            let line = headline(&call(&text, &format!("{{\"a\":{}}}", Value::from(text.as_str()))), 80);
            prop_assert!(line.chars().all(is_harmless));
        }
    }
}
