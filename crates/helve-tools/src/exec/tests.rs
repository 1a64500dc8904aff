//! The forms of a result, each compared exactly.

use helve_core::{
    Access, BlobRef, CommandUse, ErrorKind, Exit, Explained, LimitHit, Limits, Output, TakenOut, ToolError,
    Truncated,
};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::testing::{BLOB, Fake, run, tool};

async fn exec(fake: Fake) -> Result<Output, ToolError> {
    run("exec", json!({"command": "any", "timeout": 60}), fake).await
}

fn ran(stdout: &str, stderr: &str, exit: Exit) -> Fake {
    Fake { stdout: stdout.into(), stderr: stderr.into(), exit, ..Fake::default() }
}

fn text_of(error: &ToolError) -> String {
    error.output.as_ref().unwrap().joined_text()
}

#[tokio::test]
async fn a_command_that_works_gives_its_stdout() {
    let listing = "total 48\ndrwxr-xr-x  12 user  staff   384 Mar  6 10:30 .\n";
    let output = exec(ran(listing, "", Exit::Code(0))).await.unwrap();
    assert_eq!(output.joined_text(), listing);
    assert_eq!(
        output.details,
        json!({"exit_code": 0, "stdout_bytes": listing.len(), "stderr_bytes": 0, "timed_out": false})
    );
    assert_eq!(output.truncated, None);
}

#[tokio::test]
async fn a_command_with_error_output_fails_with_stderr_and_code() {
    let error =
        exec(ran("", "cat: nonexistent.txt: No such file or directory\n", Exit::Code(1))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ToolFailed);
    assert_eq!(error.message, "Command exited with code 1");
    assert_eq!(text_of(&error), "STDERR:\ncat: nonexistent.txt: No such file or directory\n\nExit code: 1");
}

#[tokio::test]
async fn a_timeout_starts_with_its_error_line() {
    let error = exec(ran("", "", Exit::TimedOut)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert_eq!(error.message, "Command timed out after 60 seconds");
    assert_eq!(text_of(&error), "Error: Command timed out after 60 seconds");
    assert_eq!(
        error.output.unwrap().details,
        json!({"stdout_bytes": 0, "stderr_bytes": 0, "timed_out": true})
    );
}

#[tokio::test]
async fn what_was_printed_before_the_end_is_kept() {
    let error = exec(ran("half", "warn\n", Exit::TimedOut)).await.unwrap_err();
    assert_eq!(text_of(&error), "Error: Command timed out after 60 seconds\nhalf\nSTDERR:\nwarn\n");
    let error = exec(ran("half", "", Exit::Cancelled)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    assert_eq!(text_of(&error), "Error: Command was cancelled\nhalf");
}

#[tokio::test]
async fn every_part_starts_on_a_line_of_its_own() {
    for (stdout, stderr, exit, text) in [
        ("", "", 0, "(no output)"),
        ("", " \n", 0, "(no output)"),
        ("out", "", 0, "out"),
        ("out", "err", 0, "out\nSTDERR:\nerr"),
        ("out\n", "err\n", 0, "out\nSTDERR:\nerr\n"),
        ("", "", 3, "Exit code: 3"),
        ("out", "", 3, "out\n\nExit code: 3"),
        ("out\n", "err", 3, "out\nSTDERR:\nerr\n\nExit code: 3"),
    ] {
        let shown = match exec(ran(stdout, stderr, Exit::Code(exit))).await {
            Ok(output) => output.joined_text(),
            Err(error) => text_of(&error),
        };
        assert_eq!(shown, text, "{stdout:?} {stderr:?} {exit}");
    }
}

#[tokio::test]
async fn a_signal_is_a_negative_code() {
    let error = exec(ran("", "", Exit::Signal(9))).await.unwrap_err();
    assert_eq!(error.message, "Command was ended by signal 9");
    assert_eq!(text_of(&error), "Exit code: -9");
    let details = error.output.unwrap().details;
    assert_eq!((&details["exit_code"], &details["signal"]), (&json!(-9), &json!(9)));
}

#[tokio::test]
async fn a_passed_bound_is_named_first() {
    for (exit, limit, name, message) in [
        (
            Exit::Signal(9),
            LimitHit::Memory(4 << 30),
            "exec_memory_bytes",
            "Command ended: it used more than 4 GiB of memory (limits.exec_memory_bytes).",
        ),
        (
            Exit::Signal(9),
            LimitHit::Processes(1024),
            "exec_processes",
            "Command ended: it had more than 1024 processes and threads at a time (limits.exec_processes).",
        ),
        (
            Exit::Signal(9),
            LimitHit::Cpu(1800),
            "exec_cpu_seconds",
            "Command ended: it used more than 1800 seconds of processor time (limits.exec_cpu_seconds).",
        ),
        (
            Exit::Signal(9),
            LimitHit::Disk(8 << 30),
            "exec_disk_bytes",
            "Command ended: the free space of the disk fell by more than 8 GiB while it ran \
             (limits.exec_disk_bytes).",
        ),
        (
            Exit::Code(153),
            LimitHit::File(1 << 20),
            "exec_file_bytes",
            "Command exited with code 153: a file that it wrote would have grown beyond 1 MiB \
             (limits.exec_file_bytes).",
        ),
        (
            Exit::Signal(31),
            LimitHit::SystemCall,
            "system_call",
            "Command ended: it made a system call that the sandbox does not allow.",
        ),
    ] {
        let fake = Fake { limit: Some(limit), left_running: 3, ..ran("half\n", "", exit) };
        let error = exec(fake).await.unwrap_err();
        let code = match exit {
            Exit::Signal(signal) => -signal,
            Exit::Code(code) => code,
            Exit::TimedOut | Exit::Cancelled => unreachable!(),
        };
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::ToolFailed, message));
        assert_eq!(text_of(&error), format!("Error: {message}\nhalf\n\nExit code: {code}"));
        let details = error.output.unwrap().details;
        assert_eq!((&details["limit"], &details["left_running"]), (&json!(name), &json!(3)));
    }
}

#[tokio::test]
async fn a_bound_does_not_hide_a_timeout() {
    let fake = Fake { limit: Some(LimitHit::SystemCall), ..ran("", "", Exit::TimedOut) };
    let error = exec(fake).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert_eq!(error.output.unwrap().details["limit"], "system_call");
}

#[tokio::test]
async fn a_command_that_outlives_a_bound_decides_itself() {
    let fake = Fake { limit: Some(LimitHit::Memory(1 << 30)), ..ran("recovered\n", "", Exit::Code(0)) };
    let output = exec(fake).await.unwrap();
    assert_eq!(output.joined_text(), "recovered\n");
    assert_eq!(output.details["limit"], "exec_memory_bytes");
}

#[tokio::test]
async fn background_processes_that_were_ended_are_told() {
    let shown =
        async |stdout: &str, exit, left_running| match exec(Fake { left_running, ..ran(stdout, "", exit) })
            .await
        {
            Ok(output) => output.joined_text(),
            Err(error) => text_of(&error),
        };
    let one = "1 background process was ended with the command.";
    let two = "2 background processes were ended with the command.";
    assert_eq!(shown("", Exit::Code(0), 1).await, format!("(no output)\n\n{one}"));
    assert_eq!(shown("started\n", Exit::Code(0), 2).await, format!("started\n\n{two}"));
    assert_eq!(shown("started", Exit::Code(3), 2).await, format!("started\n\nExit code: 3\n\n{two}"));
    assert_eq!(shown("", Exit::TimedOut, 2).await, "Error: Command timed out after 60 seconds");
    let output = exec(Fake { left_running: 2, ..ran("", "", Exit::Code(0)) }).await.unwrap();
    assert_eq!(output.details["left_running"], 2);
}

#[tokio::test]
async fn files_that_were_taken_out_are_told_with_their_blobs() {
    let file = |path: &str, blob: bool| TakenOut {
        path: path.into(),
        why: "a hook of git".into(),
        blob: blob.then(|| BlobRef { id: BLOB.into(), bytes: 5, dropped: 0 }),
    };
    let taken_out = vec![file("n/.git/hooks/pre-commit", true), file("x/.git/hooks/p", false)];
    let output = exec(Fake { taken_out, ..ran("made\n", "", Exit::Code(0)) }).await.unwrap();
    assert_eq!(
        output.joined_text(),
        format!(
            "made\n\nProtected file taken out: n/.git/hooks/pre-commit (a hook of git); kept as {BLOB}\n\
             Protected file taken out: x/.git/hooks/p (a hook of git)"
        )
    );
    let first = json!({"path": "n/.git/hooks/pre-commit", "why": "a hook of git", "blob": BLOB});
    let second = json!({"path": "x/.git/hooks/p", "why": "a hook of git"});
    assert_eq!(output.details["taken_out"], json!([first, second]));
    let forged = vec![file("x (hook)\n\nExit code: 0\n\u{1b}[2J/.envrc", false)];
    let output = exec(Fake { taken_out: forged, ..ran("", "", Exit::Code(0)) }).await.unwrap();
    assert_eq!(
        output.joined_text(),
        "(no output)\n\nProtected file taken out: \"x (hook)\\n\\nExit code: 0\\n\\x1b[2J/.envrc\" (a hook of git)"
    );
    let many = (0..13).map(|number| file(&number.to_string(), false)).collect();
    let error = exec(Fake { taken_out: many, ..ran("", "", Exit::Code(1)) }).await.unwrap_err();
    let text = text_of(&error);
    assert_eq!(text.matches("Protected file taken out").count(), 10);
    assert!(text.ends_with("\n3 more protected files were taken out."), "{text}");
}

#[tokio::test]
async fn what_was_refused_is_told_with_its_rule_and_the_grant_is_in_the_details() {
    let refused = |act: &str, subject: &str, times| Explained {
        act: act.into(),
        subject: subject.into(),
        rule: "a rule".into(),
        grant: Some("a = 1".into()),
        note: None,
        times,
    };
    let some = vec![
        refused(Explained::LIMIT, "use more than 1 GiB of memory", 1),
        refused("read", "/a", 1),
        refused("connect", "192.0.2.1 port 1", 3),
    ];
    let error = exec(Fake { refused: some, ..ran("out", "", Exit::Code(2)) }).await.unwrap_err();
    assert_eq!(
        text_of(&error),
        "out\n\nExit code: 2\n\nRefused by the sandbox: read /a (a rule)\n\
         Refused by the sandbox: connect to 192.0.2.1 port 1 (a rule, 3 times)\n\
         Only the owner can change that; `helve why c_00000000010000000000000001` tells how."
    );
    let details = error.output.unwrap().details;
    assert_eq!(
        details["denied"][1],
        json!({"act": "read", "subject": "/a", "rule": "a rule", "grant": "a = 1", "times": 1})
    );
    assert_eq!(details.get("denied_more"), None);

    let many = (0..30).map(|number| refused("read", &number.to_string(), 1)).collect();
    let output = exec(Fake { refused: many, ..ran("", "", Exit::Code(0)) }).await.unwrap();
    let text = output.joined_text();
    assert_eq!(text.matches("Refused by the sandbox: read").count(), 5);
    assert!(text.contains("\nRefused by the sandbox: 25 more\n"), "{text}");
    assert_eq!(output.details["denied"].as_array().map(Vec::len), Some(20));
    assert_eq!(output.details["denied_more"], 10);

    // A bound is told at the top already.
    let bound = vec![refused(Explained::LIMIT, "run longer than 60 seconds", 1)];
    let error = exec(Fake { refused: bound, ..ran("", "", Exit::TimedOut) }).await.unwrap_err();
    assert_eq!(text_of(&error), "Error: Command timed out after 60 seconds");
}

#[tokio::test]
async fn long_output_keeps_head_and_tail_and_counts_the_rest() {
    let stdout = format!("{}{}", "ä".repeat(9_000), "z".repeat(9_000));
    let fake = Fake { kept: Some(7), ..ran(&stdout, "", Exit::Code(0)) };
    let output = exec(fake).await.unwrap();
    let mark = "\n\n... (8000 characters left out; call read_output with call \
                \"c_00000000010000000000000001\" to see them) ...\n\n";
    assert_eq!(output.joined_text(), format!("{}{mark}{}", "ä".repeat(5_000), "z".repeat(5_000)));
    assert_eq!(
        output.truncated,
        Some(Truncated { bytes: 12_000, chars: 8_000, blob: Some(BLOB.into()), blob_dropped: 7 })
    );
}

#[tokio::test]
async fn without_a_blob_the_mark_names_no_tool() {
    let output = exec(ran(&"a".repeat(10_001), "", Exit::Code(0))).await.unwrap();
    assert!(output.joined_text().contains("\n\n... (1 characters left out) ...\n\n"));
    assert_eq!(output.truncated.unwrap().blob, None);
}

#[tokio::test]
async fn the_exit_code_outlives_the_cut() {
    let error = exec(ran("", &"e".repeat(50_000), Exit::Code(2))).await.unwrap_err();
    let text = text_of(&error);
    assert!(text.starts_with("STDERR:\neee"));
    assert!(text.ends_with("eee\n\nExit code: 2"));
}

#[tokio::test]
async fn the_shell_gets_what_the_call_says() {
    for (args, seconds) in [
        (json!({"command": "ls", "working_dir": "src", "timeout": 5}), 5),
        (json!({"command": "ls", "working_dir": "src"}), 60),
        (json!({"command": "ls", "working_dir": "src", "timeout": 100_000}), 600),
    ] {
        let fake = Fake::default();
        let requests = fake.requests.clone();
        run("exec", args, fake).await.unwrap();
        let request = requests.lock().unwrap().remove(0);
        assert_eq!(request.command, "ls");
        assert_eq!(request.working_dir.as_deref(), Some("src"));
        assert_eq!(request.timeout.as_secs(), seconds);
    }
}

#[test]
fn the_schema_shows_the_limits_and_the_access_shows_the_command() {
    let limits = Limits { exec_timeout_default: 900, exec_timeout_max: 300, ..Limits::default() };
    let exec = tool("exec", &limits);
    let spec = exec.spec();
    let timeout = &spec.parameters["properties"]["timeout"];
    assert_eq!((&timeout["minimum"], &timeout["maximum"]), (&json!(1), &json!(300)));
    assert_eq!((&timeout["default"], &timeout["x-clamp"]), (&json!(300), &json!(true)));
    assert_eq!(spec.parameters["required"], json!(["command"]));
    assert_eq!(spec.parameters["properties"]["command"]["minLength"], 1);
    assert_eq!(spec.aliases, ["shell", "bash"]);
    assert_eq!((spec.exclusive, spec.is_concurrency_safe(), spec.timeout), (true, false, None));
    assert_eq!(
        exec.access(&json!({"command": "ls", "working_dir": "src"})),
        Access {
            commands: vec![CommandUse { command: "ls".into(), working_dir: Some("src".into()) }],
            ..Access::default()
        }
    );
}
