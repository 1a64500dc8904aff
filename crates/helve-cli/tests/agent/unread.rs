//! Readers that stop reading, and readers that are slow: the first hold up neither the clock nor a signal, the second lose
//! nothing.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{Read, Write as _};
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::scripted::{answered, echo, record};
use super::support::{Place, json_lines, wait_for};

/// Nothing here takes as long that ends by itself.
const LONG: Duration = Duration::from_secs(30);
/// The events of so many rounds fit into no queue.
const ROUNDS: usize = 60;

/// A model that says much in many rounds, and then a word.
fn talkative(place: &Place) -> String {
    let long = "many words ".repeat(880);
    let round =
        |at: usize| answered(&format!("{at} {long}"), &[echo(&format!("c{at}"), &format!("{at} {long}"))]);
    let answers: Vec<Value> = (0..ROUNDS).map(round).chain([answered("Done.", &[])]).collect();
    record(place, &answers)
}

/// Starts a run whose output is read by nobody yet.
fn start(place: &Place, words: &[&str]) -> Child {
    let mut command = place.helve();
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn agent<'a>(model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["agent", "--json", "--model", model, "--session", "tests"], more].concat()
}

/// Waits for the end of a program without reading of it; one that does not end is killed.
#[track_caller]
fn ends(child: &mut Child) -> ExitStatus {
    let began = Instant::now();
    while began.elapsed() < LONG {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("it waits for its reader");
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

/// What the journal has of the talk, by name.
fn chapters(place: &Place) -> Vec<String> {
    let name = |entry: &Value| entry["body"]["agent"].as_str().map(str::to_owned);
    place.journal().iter().filter_map(name).collect()
}

/// Waits until a run that nobody reads has come as far as it comes.
fn stands_still(place: &Place) {
    let length = || std::fs::metadata(place.journal_path()).map_or(0, |file| file.len());
    let still = || {
        let before = length();
        std::thread::sleep(Duration::from_millis(700));
        before > 20_000 && length() == before
    };
    assert!(wait_for(LONG, still));
    assert!(chapters(place).iter().filter(|chapter| *chapter == "answered").count() < ROUNDS);
}

/// How the last run ended, by the journal, which is sound.
fn recorded_end(place: &Place) -> Value {
    assert_eq!(place.verify().code, 0);
    let last = place.journal().pop().unwrap();
    assert_eq!(last["body"]["agent"], "end", "{last}");
    last["body"]["ending"].clone()
}

#[test]
fn the_time_of_a_run_is_up_though_nobody_reads_its_events() {
    let place = Place::new();
    let model = talkative(&place);
    let mut child = start(&place, &agent(&model, &["--max-time", "1s", "x"]));
    let status = ends(&mut child);
    assert_eq!(status.code(), Some(124));
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(err.contains("nobody reads the output"), "{err}");
    assert_eq!(recorded_end(&place), "time");
    // The last words were asked for as of any run.
    let chapters = chapters(&place);
    assert!(
        chapters.ends_with(&["said", "asked", "answered", "not_run", "end"].map(str::to_owned)),
        "{chapters:?}"
    );
}

#[test]
fn a_signal_stops_a_run_whose_events_nobody_reads() {
    for which in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let model = talkative(&place);
        let mut child = start(&place, &agent(&model, &["x"]));
        stands_still(&place);
        signal(&child, which);
        assert_eq!(ends(&mut child).code(), Some(130), "{which:?}");
        assert_eq!(recorded_end(&place), "cancelled", "{which:?}");
    }
}

/// What is told beside the answer may have the same reader.
#[test]
fn a_signal_stops_a_talk_of_which_nobody_reads_anything() {
    let place = Place::new();
    let model = talkative(&place);
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = place.helve();
    command.args(["chat", "--model", &model, "--session", "tests"]);
    command.stdin(Stdio::piped()).stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    child.stdin.take().unwrap().write_all(b"x\n").unwrap();
    stands_still(&place);
    signal(&child, Signal::TERM);
    assert_eq!(ends(&mut child).code(), Some(130));
    assert_eq!(recorded_end(&place), "cancelled");
    drop(reader);
}

/// A run that ended by itself waits for its reader, and a signal ends that at once.
#[test]
fn a_signal_ends_the_wait_for_a_reader() {
    for which in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let model = record(&place, &[answered(&"many words ".repeat(20_000), &[])]);
        let mut child = start(&place, &agent(&model, &["x"]));
        let journal = || std::fs::read_to_string(place.journal_path()).unwrap_or_default();
        assert!(wait_for(LONG, || journal().contains("\"agent\":\"end\"")));
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(child.try_wait().unwrap(), None, "it waits for its reader");
        signal(&child, which);
        let began = Instant::now();
        assert_eq!(ends(&mut child).code(), Some(130), "{which:?}");
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        assert_eq!(recorded_end(&place), "answered", "{which:?}");
    }
}

/// The events as they are the same each time.
fn events(text: &str) -> Vec<Value> {
    let mut events = json_lines(text);
    for event in &mut events {
        if let Some(result) = event.get_mut("result").and_then(Value::as_object_mut) {
            result.retain(|name, _| name == "ok" || name == "content");
        }
    }
    // The model is a file of the place.
    events[0]["model"].take();
    // Where an answer is cut into pieces depends on nobody's pace, but is nobody's business.
    events.retain(|event| event["event"] != "piece");
    events
}

fn read_slowly(mut out: ChildStdout, pause: Duration) -> String {
    let (mut all, mut part) = (Vec::new(), [0; 16 * 1024]);
    loop {
        let count = out.read(&mut part).unwrap();
        if count == 0 {
            return String::from_utf8(all).unwrap();
        }
        all.extend_from_slice(&part[..count]);
        std::thread::sleep(pause);
    }
}

#[test]
fn a_slow_reader_gets_every_event_in_order() {
    let (fast, slow) = (Place::new(), Place::new());
    let model = talkative(&fast);
    let ran = fast.run(&agent(&model, &["x"]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let model = talkative(&slow);
    let mut child = start(&slow, &agent(&model, &["x"]));
    // More than the time for which one is waited for that never reads.
    std::thread::sleep(Duration::from_secs(6));
    let text = read_slowly(child.stdout.take().unwrap(), Duration::from_millis(10));
    assert_eq!(ends(&mut child).code(), Some(0));
    assert!(text.len() > 4 * 256 * 1024, "{}", text.len());
    let (events_slow, events_fast) = (events(&text), events(&ran.stdout));
    let name = |event: &Value| event["event"].as_str().unwrap().to_owned();
    let names = |events: &[Value]| events.iter().map(name).collect::<Vec<String>>();
    assert_eq!(names(&events_slow), names(&events_fast));
    // They are too long to be shown.
    assert!(events_slow == events_fast, "{}", text.len());
    let of_pieces = |text: &str| -> String {
        let pieces = json_lines(text).into_iter().filter(|event| event["event"] == "piece");
        pieces.filter_map(|piece| piece["text"].as_str().map(str::to_owned)).collect()
    };
    assert!(of_pieces(&text) == of_pieces(&ran.stdout) && of_pieces(&text).contains("59 many words"));
    assert_eq!(chapters(&slow), chapters(&fast));
}

/// Where a run is stopped, what it told until then comes to a reader that reads on.
#[test]
fn what_was_told_before_a_stop_is_read_to_its_end() {
    let place = Place::new();
    let model = talkative(&place);
    let mut child = start(&place, &agent(&model, &["x"]));
    stands_still(&place);
    signal(&child, Signal::TERM);
    let text = read_slowly(child.stdout.take().unwrap(), Duration::from_millis(50));
    assert_eq!(ends(&mut child).code(), Some(130));
    let events = json_lines(&text);
    let end = events.last().unwrap();
    assert_eq!((&end["event"], &end["ending"]), (&json!("end"), &json!("cancelled")));
    let answers = events.iter().filter(|event| event["event"] == "answer").count();
    let recorded = chapters(&place).into_iter().filter(|chapter| chapter == "answered").count();
    assert_eq!(answers, recorded);
}
