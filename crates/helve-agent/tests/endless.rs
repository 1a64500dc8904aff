//! What a provider can send that never ends, is far too much, or tells the key: every answer ends, and what is there counts.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use helve::Cancel;
use helve_agent::model::{Answer, ModelError, ModelErrorKind, Piece, Request};
use helve_agent::models::{Choice, Patience, Secret, model};
use helve_agent::talk::{Message, Usage, UserMessage};
use pretty_assertions::assert_eq;

const KEY: &str = "sk-proj-Zx9Qw8Er7Ty6Ui5Op4As3Df2";
const IDLE: Duration = Duration::from_millis(400);
/// No answer here takes longer, on a busy machine too.
const LONG: Duration = Duration::from_secs(60);

/// A server that answers every request so, for as long as somebody reads.
fn served(answer: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = number.trim().parse().unwrap();
                }
                line.clear();
            }
            let _ = reader.read_exact(&mut vec![0; length]);
            // Whoever has heard enough hangs up.
            let _ = answer(&mut stream);
        }
    });
    url
}

/// The same with a good status and a body that begins so and goes on with this, again and again.
fn stream(start: &'static str, more: &'static str, pause: Duration) -> String {
    served(move |stream| {
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{start}"
        )?;
        while !more.is_empty() {
            stream.write_all(more.as_bytes())?;
            std::thread::sleep(pause);
        }
        Ok(())
    })
}

async fn ask(provider: &str, url: &str, whole: Duration) -> (Result<Answer, ModelError>, Vec<Piece>) {
    let patience = Patience {
        idle: IDLE,
        whole,
        tries: 2,
        first_pause: Duration::from_millis(1),
        ..Patience::default()
    };
    let choice = Choice {
        provider: provider.to_owned(),
        name: "m".to_owned(),
        base_url: Some(url.to_owned()),
        key: Some(Secret::new(KEY.to_owned())),
        patience,
        ..Choice::default()
    };
    let messages = [Message::User(UserMessage { text: "Hi".into(), ..UserMessage::default() })];
    let request = Request {
        system: "",
        tools: &[],
        messages: &messages,
        may_call: true,
        max_output: None,
        temperature: None,
    };
    let mut pieces = Vec::new();
    let mut listener = |piece: Piece| {
        // Thoughts without end are told as they come; a test need not keep them.
        if !matches!(piece, Piece::Thought { .. }) {
            pieces.push(piece);
        }
    };
    let model = model(choice).unwrap();
    let began = Instant::now();
    let answer = model.answer(request, &mut listener, &Cancel::never()).await;
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    (answer, pieces)
}

const WHOLE: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\n\
    data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":7.0,\"completion_tokens\":2}}\n\n";

#[tokio::test]
async fn an_answer_that_is_there_is_taken_though_its_stream_never_ends() {
    for (more, pause) in [(": ping\n\n", 50), (": ping\n\n", 0), ("data: {\"choices\":[]}\n\n", 1)] {
        let (answer, _) = ask("openai", &stream(WHOLE, more, Duration::from_millis(pause)), LONG).await;
        let answer = answer.unwrap();
        assert_eq!(answer.message.text, "hello", "{more}");
        assert_eq!(answer.usage, Usage { input: 7, output: 2, ..Usage::default() });
    }
}

#[tokio::test]
async fn what_says_nothing_is_silence_and_what_never_ends_is_given_up() {
    const SHORT: Duration = Duration::from_millis(1500);
    const SPACE: &str = "                                                                                \n";
    const THOUGHT: &str = "data: {\"choices\":[{\"delta\":{\"reasoning\":\"mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm\"}}]}\n\n";
    const PING: &str = "data: {\"type\":\"ping\"}\n\n";
    const BEGUN: &str = "data: {\"type\":\"message_start\",\"message\":{}}\n\n";
    for (provider, start, more, pause, whole, words) in [
        ("openai", "", ": ping\n\n", 50, LONG, "was silent for 0.4 s"),
        ("openai", "", SPACE, 50, LONG, "was silent for 0.4 s"),
        ("anthropic", "", PING, 50, LONG, "was silent for 0.4 s"),
        ("anthropic", BEGUN, ": ping\n\n", 50, LONG, "was silent for 0.4 s"),
        // The model may be thinking.
        ("anthropic", BEGUN, PING, 50, SHORT, "has not ended after 1.5 s"),
        ("openai", "", THOUGHT, 1, SHORT, "has not ended after 1.5 s"),
    ] {
        let (answer, _) = ask(provider, &stream(start, more, Duration::from_millis(pause)), whole).await;
        let error = answer.unwrap_err();
        assert!(error.message.contains(words), "{more}: {error}");
    }
    // At full speed it is how much that ends it.
    let thoughts: &'static str = THOUGHT.repeat(10_000).leak();
    let spaces: &'static str = SPACE.repeat(10_000).leak();
    for more in [thoughts, spaces] {
        let (answer, _) = ask("openai", &stream("", more, Duration::ZERO), LONG).await;
        let error = answer.unwrap_err();
        let ends = ["larger than 16 MiB", "after 256 MiB", "was silent"];
        assert!(ends.iter().any(|end| error.message.contains(end)), "{error}");
    }
}

#[tokio::test]
async fn very_many_values_are_not_made() {
    let list = format!("[{}0]", "{\"\":0},".repeat(200_000));
    for body in [format!("data: {{\"x\":{list}}}\n\n{WHOLE}"), format!("{{\"x\":{list}}}")] {
        let (answer, _) = ask("openai", &stream(body.leak(), "", Duration::ZERO), LONG).await;
        let error = answer.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Strange);
        assert!(error.message.contains("values"), "{error}");
    }
}

#[tokio::test]
async fn a_mark_before_an_answer_that_comes_at_once_says_nothing() {
    let body = "\u{feff}{\"choices\":[{\"message\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}";
    let (answer, _) = ask("openai", &stream(body, "", Duration::ZERO), LONG).await;
    assert_eq!(answer.unwrap().message.text, "hello");
}

/// What was counted before an answer broke has to be paid all the same.
#[tokio::test]
async fn what_broken_tries_cost_is_told() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":1}}\n\n";
    let (answer, pieces) = ask("openai", &stream(body, "", Duration::ZERO), LONG).await;
    let counted = Usage { input: 100, output: 1, ..Usage::default() };
    assert_eq!(answer.unwrap_err().usage, counted);
    let again: Vec<Usage> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Again { usage, .. } => Some(*usage),
            _ => None,
        })
        .collect();
    assert_eq!(again, [counted]);
}

#[tokio::test]
async fn a_part_of_the_key_shows_nowhere() {
    let tail = &KEY[5..];
    let refused = served(move |stream| {
        let back: String = KEY.chars().rev().collect();
        let body = format!("{{\"error\":{{\"message\":\"bad {tail} and {back}\"}}}}");
        let length = body.len();
        write!(stream, "HTTP/1.1 400 No\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
    });
    let (answer, _) = ask("openai", &refused, LONG).await;
    assert!(answer.unwrap_err().message.ends_with("bad [key] and [key]"));
    let sent_on = served(move |stream| {
        let to = format!("/elsewhere?k={}", &KEY[..10]);
        write!(stream, "HTTP/1.1 307 No\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    });
    let (answer, _) = ask("openai", &sent_on, LONG).await;
    let error = answer.unwrap_err();
    assert!(error.message.contains("on to http://127.0.0.1:") && !error.message.contains("?k"), "{error}");
}
