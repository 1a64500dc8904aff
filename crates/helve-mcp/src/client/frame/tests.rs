//! Frames of a hostile server: bounded, and never a panic.

use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use tokio::io::DuplexStream;

/// The next line, or what comes instead.
async fn next(lines: &mut Lines<DuplexStream>) -> Result<String, Next<'static>> {
    let next = std::future::poll_fn(|poller| {
        lines.poll_next(poller).map(|next| match next {
            Next::Line(line) => Ok(String::from_utf8_lossy(line).into_owned()),
            Next::TooLong => Err(Next::TooLong),
            Next::End => Err(Next::End),
        })
    });
    next.await
}

/// Everything that a stream says, its end included.
async fn all(bytes: &[u8], cap: usize, piece: usize) -> Vec<String> {
    let (mut near, far) = tokio::io::duplex(piece);
    let bytes = bytes.to_vec();
    let writing = tokio::spawn(async move {
        let _ = near.write_all(&bytes).await;
    });
    let mut lines = Lines::new(far, cap);
    let mut said = Vec::new();
    loop {
        match next(&mut lines).await {
            Ok(line) => said.push(line),
            Err(Next::TooLong) => {
                said.push("(too long)".to_owned());
                break;
            }
            Err(_) => break,
        }
    }
    drop(lines);
    let _ = writing.await;
    said
}

#[tokio::test]
async fn lines_come_whole_whatever_the_pieces() {
    for piece in [1, 3, 1000] {
        assert_eq!(all(b"one\r\n\ntwo\nhalf", 100, piece).await, ["one", "", "two"]);
    }
}

#[tokio::test]
async fn only_so_many_lines_in_a_row_may_be_no_message() {
    let message = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
    let noise = "hello\n".repeat(NO_MESSAGES as usize);
    let heard = |bytes: String| async move { try_frames(bytes.as_bytes(), 4096, 1000).await.0.len() };
    assert_eq!(heard(format!("{noise}{message}{noise}{message}")).await, 2);
    assert_eq!(heard(format!("{noise}hello\n{message}")).await, 0);
    // Empty ones are no noise, but have an end too.
    let empty = "\n".repeat(EMPTY_LINES as usize);
    assert_eq!(heard(format!("{noise}{empty}{message}{empty}{noise}{message}")).await, 2);
    assert_eq!(heard(format!("{empty}\r\n{message}")).await, 0);
}

#[tokio::test]
async fn a_line_over_the_cap_ends_it() {
    // Also where all of it is there at once.
    for piece in [1, 1000] {
        assert_eq!(all(b"ok\naaaaaaaaaaa\nlater\n", 10, piece).await, ["ok", "(too long)"]);
    }
    assert_eq!(all(b"ok\naaaaaaaaaa\nlater\n", 10, 1000).await, ["ok", "aaaaaaaaaa", "later"]);
}

#[tokio::test]
async fn an_endless_line_holds_less_than_twice_the_cap() {
    let cap = 1 << 20;
    let (mut near, far) = tokio::io::duplex(1 << 16);
    let writing = tokio::spawn(async move {
        let piece = vec![b'x'; 1 << 16];
        while near.write_all(&piece).await.is_ok() {}
    });
    let mut lines = Lines::new(far, cap);
    let mut most = 0;
    loop {
        // Each look may be given up: what was read so far stays.
        let look = tokio::time::timeout(Duration::from_micros(200), next(&mut lines)).await;
        let done = matches!(look, Ok(Err(Next::TooLong)));
        most = most.max(lines.held.capacity());
        if done {
            break;
        }
    }
    assert!(most < 2 * cap, "{most}");
    drop(lines);
    let _ = writing.await;
}

#[test]
fn what_is_no_message_is_said_to_be_none() {
    for line in [
        "hello",
        "[]",
        r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#,
        "{}",
        r#"{"jsonrpc":"2.0","method":7}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        "\u{0}",
        "null",
    ] {
        assert!(matches!(read(line.as_bytes()), Said::Garbage(_)), "{line}: {:?}", read(line.as_bytes()));
    }
    assert!(matches!(read(b"  \t"), Said::Nothing));
    let deep = "[".repeat(100_000);
    assert!(matches!(read(deep.as_bytes()), Said::Garbage(_)));
    // One that nests too deep answers all the same, and a tool that does takes no other along.
    let deep =
        format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":{deep}{}}}}}"#, "]".repeat(deep.len()));
    let Said::Message(message) = read(deep.as_bytes()) else { panic!("no message") };
    assert!(serde_json::to_string(&message).unwrap().contains(r#""id":7,"error""#));
    let nested = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let list = format!(
        r#"{{"jsonrpc":"2.0","id":7,"result":{{"tools":[{{"name":"a","inputSchema":{{}}}},{{"name":"b","inputSchema":{nested}}}],"nextCursor":"c"}}}}"#
    );
    let Said::Message(message) = read(list.as_bytes()) else { panic!("no message") };
    let message = serde_json::to_value(&message).unwrap();
    assert_eq!(
        (&message["result"]["tools"][1]["name"], &message["result"]["nextCursor"]),
        (&"b".into(), &"c".into())
    );
}

#[test]
fn a_broken_answer_is_an_error_for_its_request() {
    for line in [
        r#"{"id":4,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":4,"error":"no"}"#,
        r#"{"jsonrpc":2,"id":4,"result":{}}"#,
    ] {
        let Said::Message(message) = read(line.as_bytes()) else { panic!("{line}") };
        let ServerJsonRpcMessage::Error(error) = *message else { panic!("{line}: {message:?}") };
        assert_eq!(error.id, Some(RequestId::Number(4)), "{line}");
    }
}

#[test]
fn messages_are_read() {
    let Said::Message(message) =
        read(br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}]}}"#)
    else {
        panic!("no message")
    };
    assert!(matches!(*message, ServerJsonRpcMessage::Response(_)));
    assert!(matches!(
        read(br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#),
        Said::Message(_)
    ));
}

proptest! {
    #[test]
    fn no_line_is_a_crash(line in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&line);
    }
}

/// Members of an answer and of its result: those that the straight way knows, and some that it must leave alone.
fn answer() -> impl Strategy<Value = Value> {
    let content = prop_oneof![
        Just(json!([])),
        Just(json!([{"type": "text", "text": "a\u{e9}\n"}])),
        Just(
            json!([{"type": "image", "data": "AAAA", "mimeType": "image/png"}, {"type": "text", "text": "b"}])
        ),
        Just(json!([{"type": "strange"}])),
        Just(json!([{"type": "image", "text": "c"}])),
        Just(json!([{"type": "text", "text": "d", "annotations": {"priority": 0.5}}])),
        Just(json!("text")),
        Just(Value::Null),
    ];
    let some = prop_oneof![
        Just(json!({})),
        Just(json!({"a": [1, 2.5, null]})),
        Just(Value::Null),
        Just(json!(true)),
        Just(json!("complete")),
    ];
    let key = "content|structuredContent|isError|_meta|resultType|tools|task|action|messages|extra";
    let members = prop::collection::btree_map(key, some, 0..4);
    let id = prop_oneof![Just(json!(7)), Just(json!("x")), Just(Value::Null), Just(json!(1.5))];
    let outer = prop_oneof![Just("result"), Just("error"), Just("method"), Just("params")];
    (prop::option::of(content), members, id, prop::option::of(outer), prop_oneof![Just("2.0"), Just("1.0")])
        .prop_map(|(content, members, id, outer, version)| {
            let mut result = Value::Object(members.into_iter().collect());
            if let Some(content) = content {
                result["content"] = content;
            }
            let mut message = json!({"jsonrpc": version, "id": id, "result": result});
            if let Some(outer) = outer.filter(|outer| *outer != "result") {
                message[outer] = json!("x");
            }
            message
        })
}

proptest! {
    #[test]
    fn the_straight_way_comes_to_the_same(message in answer()) {
        let text = message.to_string();
        if let Some(straight) = of_a_call(&text) {
            let general = serde_json::from_str::<ServerJsonRpcMessage>(&text).unwrap();
            prop_assert_eq!(format!("{straight:?}"), format!("{general:?}"));
        }
    }
}

/// Mostly the first, else one of the others, however strange.
fn mostly(usual: &'static str, else_: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop_oneof![12 => Just(usual), 1 => prop::sample::select(else_)]
}

prop_compose! {
    fn block()(
        kind in mostly(r#""type":"text""#, &[r#""type": "text""#, r#""type":"image""#, r#""type":null"#]),
        text in mostly(r#""text":"a""#, &[
            r#""text": "b\n\u00e9""#, r#""text":"\ud800""#, "\"text\":\"\u{1}\"", r#""text":1"#, r#""text":"\x""#,
            r#""text":"é","text":"e""#, r#""text":"","annotations":{}"#, r#""text":"""#,
        ]),
        swapped in any::<bool>(),
    ) -> String {
        if swapped { format!("{{{text},{kind}}}") } else { format!("{{{kind}, {text}}}") }
    }
}

prop_compose! {
    /// An answer with texts alone in which hardly anything is unusual.
    fn nearly_plain()(
        version in mostly(r#""jsonrpc":"2.0""#, &[r#""jsonrpc": "2.0""#, r#""jsonrpc":"1.0""#, r#""method":"x""#]),
        id in mostly(r#""id":7"#, &[
            r#""id": 7"#, r#""id":0"#, r#""id":"7""#, r#""id":07"#, r#""id":-1"#, r#""id":7.0"#, r#""id":null"#,
            r#""id":1234567890123456789"#, r#""id":12345678901234567890"#, r#""i\u0064":7"#, r#""id":7,"id":8"#,
        ]),
        blocks in prop::collection::vec(block(), 0..3),
        more in mostly("", &[
            r#","isError":true"#, r#", "isError": false"#, r#","isError":null"#, r#","isError":truest"#, r#","_meta":{}"#,
            r#","content":[]"#, ",", " ",
        ]),
        between in mostly(",", &[", ", " ,", ",,", ""]),
        order in Just([0, 1, 2]).prop_shuffle(),
        ends in mostly("}", &["} ", "}\t", "}}", "} x", "", ",\"error\":{}}", ",\"result\":{}}"]),
    ) -> String {
        let result = format!(r#""result":{{"content":[{}]{more}}}"#, blocks.join(","));
        let members = order.map(|at| [version, id, &result][at]);
        format!("{{{}{ends}", members.join(between))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn nothing_is_read_as_texts_alone_that_is_anything_else(line in nearly_plain()) {
        if let Some(texts) = only_texts(line.as_bytes()) {
            let general = serde_json::from_str::<ServerJsonRpcMessage>(&line);
            prop_assert_eq!(format!("Ok({texts:?})"), format!("{general:?}"), "{}", line);
        }
    }
}

#[test]
fn results_of_calls_take_the_straight_way() {
    for result in
        [json!({"content": [{"type": "text", "text": "x"}]}), json!({"content": [], "isError": true})]
    {
        assert!(of_a_call(&json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string()).is_some());
    }
    for line in [
        r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b\n"}]}}"#,
        r#"{"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": "a"}], "isError": false}}"#,
    ] {
        let general = serde_json::from_str::<ServerJsonRpcMessage>(line).unwrap();
        let straight = only_texts(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(format!("{straight:?}"), format!("{general:?}"));
    }
}

#[test]
fn a_line_that_would_become_very_many_values_is_refused_before_it_does() {
    let answer = |zeros: usize| {
        let list = vec!["0"; zeros].join(",");
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[],"structuredContent":{{"a":[{list}]}}}}}}"#
        )
    };
    let Said::Message(read_in_full) = read(answer(VALUES - 20).as_bytes()) else { panic!("no message") };
    assert!(matches!(*read_in_full, ServerJsonRpcMessage::Response(_)));
    let Said::Message(refused) = read(answer(VALUES).as_bytes()) else { panic!("no message") };
    let ServerJsonRpcMessage::Error(refused) = *refused else { panic!("no error") };
    assert_eq!(refused.id, Some(RequestId::Number(7)));
    assert_eq!(refused.error.message, "it holds more than 500000 values");
    let texts = vec![r#"{"type":"text","text":""}"#; VALUES].join(",");
    let texts = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[{texts}]}}}}"#);
    let Said::Message(refused) = read(texts.as_bytes()) else { panic!("no message") };
    assert!(matches!(*refused, ServerJsonRpcMessage::Error(_)));
}
