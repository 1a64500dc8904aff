//! `call`, `run` and `check`: notations, the wire format, exit codes.

use std::io::Write as _;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{BARE, SESSION, World};

/// The result with what differs from run to run replaced.
fn steady(mut result: Value) -> Value {
    assert!(result["duration_us"].is_u64(), "{result}");
    let call = result["call"].as_str().unwrap();
    assert!(call.starts_with("c_") && call.len() == 28, "{call}");
    result["call"] = json!("CALL");
    result["duration_us"] = json!(0);
    result
}

#[test]
fn the_text_of_a_result_ends_in_exactly_one_newline() {
    let world = World::new();
    assert_eq!(world.run(&["call", "echo", "message=hi"]).quiet(), (Some(0), "hi\n".into()));
    assert_eq!(world.run(&["call", "echo", r#"{"message":"hi\n"}"#]).quiet(), (Some(0), "hi\n".into()));
    assert_eq!(world.run(&["call", "echo", r#"{"message":"hi\n\n"}"#]).quiet(), (Some(0), "hi\n\n".into()));
}

#[test]
fn arguments_come_in_every_notation() {
    let world = World::new();
    let file = world.workspace().join("args.json");
    std::fs::write(&file, r#"{"message":"a b"}"#).unwrap();
    let at_file = format!("@{}", file.display());
    for args in [&[r#"{"message":"a b"}"#] as &[&str], &["message=a b"], &[r#"message:="a b""#], &[&at_file]]
    {
        assert_eq!(world.run_with(&["call", "echo"], args).quiet(), (Some(0), "a b\n".into()), "{args:?}");
    }
    let fed = world.feed(&["call", "echo", "-"], r#"{"message":"a b"}"#);
    assert_eq!(fed.quiet(), (Some(0), "a b\n".into()));
    let coerced = world.run(&["call", "json", "operation=stringify", "data:={\"a\":[1]}", "indent=0"]);
    assert_eq!(coerced.quiet(), (Some(0), "{\"a\":[1]}\n".into()));
}

#[test]
fn duplicate_keys_are_seen_in_every_notation() {
    let world = World::new();
    let text = r#"{"message":"a","message":"b"}"#;
    for ended in [
        world.run(&["call", "echo", text]),
        world.run(&["call", "echo", "message=a", "message=b"]),
        world.feed(&["call", "echo", "-"], text),
    ] {
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stdout.contains("duplicate"), "{ended:?}");
    }
}

#[test]
fn a_file_of_arguments_is_a_file_or_open_already() {
    let world = World::new();
    let pipe = world.workspace().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    for name in ["@pipe", "@/dev/zero", "@/dev/tty", "@."] {
        let ended = world.run_in_time(&["call", "echo", name]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{name}: {ended:?}");
    }
    assert!(world.run(&["call", "echo", "@pipe"]).stderr.contains("not a regular file"));
    for name in ["@/dev/stdin", "@/dev/fd/0"] {
        let fed = world.feed(&["call", "echo", name], r#"{"message":"fed"}"#);
        assert_eq!(fed.quiet(), (Some(0), "fed\n".into()), "{name}");
    }
}

#[test]
fn what_fits_no_notation_is_told_the_notations() {
    let world = World::new();
    for word in ["message", "=x", "nul"] {
        let ended = world.run(&["call", "echo", word]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        for notation in ["KEY=VALUE", "KEY:=JSON", "JSON object", "@FILE", " - "] {
            assert!(ended.stderr.contains(notation), "{word}: {ended:?}");
        }
    }
    let nameless = world.run(&["call", "echo", "@"]);
    assert!(nameless.stderr.contains("no name behind @"), "{nameless:?}");
}

#[test]
fn bad_usage_is_told_on_standard_error_and_nothing_is_recorded() {
    let world = World::new();
    let cases: [&[&str]; 6] = [
        &["call", "echo", "message=a", "b"],
        &["call", "echo", "message:=nonsense"],
        &["call", "echo", "@no-such-file"],
        &["call", "echo", "message=a", "--workspace", "no-such-directory"],
        &["call", "echo", "message=a", "--session", "../x", "--set", "nonsense"],
        &["no-such-command"],
    ];
    for args in cases {
        let ended = world.run(args);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{args:?}");
        assert!(!ended.stderr.is_empty(), "{args:?}");
    }
    assert!(!world.path("state").exists());
}

#[test]
fn a_name_that_no_session_can_have_is_bad_usage() {
    let world = World::new();
    let long = "x".repeat(101);
    for name in ["../x", ".x", "", "a b", "ü", "a/b", long.as_str()] {
        for command in [&["call", "echo", "message=a"] as &[&str], &["log"], &["verify"]] {
            let ended = world.run_with(&[&format!("--session={name}")], command);
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{name}: {ended:?}");
            assert!(ended.stderr.contains("use 1 to 100 letters"), "{name}: {ended:?}");
        }
        let ended = world.run(&["call", "echo", "message=a", "--set", &format!("journal.session='{name}'")]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{name}: {ended:?}");
    }
    assert!(!world.path("state").exists());
    assert_eq!(world.run(&["call", "echo", "message=a", "--session", &long[1..]]).code, Some(0));
}

#[test]
fn the_wire_format_of_a_result_is_fixed() {
    let world = World::new();
    let ended = world.run(&["call", "echo", "message=hi", "--json"]);
    assert_eq!(
        steady(ended.json()),
        json!({
            "call": "CALL",
            "tool": "echo",
            "ok": true,
            "content": [{"type": "text", "text": "hi"}],
            "details": {"chars": 2},
            "decision": {"verdict": "allow", "rule": "default"},
            "cost": null,
            "duration_us": 0,
        })
    );
    let keys: Vec<String> = ended.json().as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["call", "tool", "ok", "content", "details", "decision", "cost", "duration_us"]);
}

#[test]
fn the_wire_format_of_a_failed_command_is_fixed() {
    let world = World::new();
    let ended = world.run_with(&BARE, &["run", "--json", "echo out; echo err >&2; exit 3"]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        steady(ended.json()),
        json!({
            "call": "CALL",
            "tool": "exec",
            "ok": false,
            "content": [{"type": "text", "text": "out\nSTDERR:\nerr\n\nExit code: 3"}],
            "details": {"exit_code": 3, "stdout_bytes": 4, "stderr_bytes": 4, "timed_out": false},
            "error": {"kind": "tool_failed", "message": "Command exited with code 3"},
            "decision": {"verdict": "allow", "rule": "auto_approve"},
            "sandbox": {"backend": "none", "layers": []},
            "cost": null,
            "duration_us": 0,
        })
    );
}

#[test]
fn the_wire_format_of_refused_arguments_is_fixed() {
    let world = World::new();
    let mut result = steady(world.run(&["call", "echo", "--json", r#"{"message":{"a":1}}"#]).json());
    for text in ["/content/0/text", "/error/message", "/error/hint"] {
        let text = result.pointer_mut(text).unwrap();
        assert!(text.as_str().is_some_and(|text| !text.is_empty()));
        *text = json!("TEXT");
    }
    let problems = result.pointer_mut("/error/problems").unwrap().take();
    assert_eq!(problems.as_array().map(Vec::len), Some(1), "{problems}");
    assert_eq!(problems[0]["pointer"], "/message");
    assert_eq!(
        result,
        json!({
            "call": "CALL",
            "tool": "echo",
            "ok": false,
            "content": [{"type": "text", "text": "TEXT"}],
            "error": {"kind": "invalid_params", "message": "TEXT", "hint": "TEXT", "problems": null},
            "cost": null,
            "duration_us": 0,
        })
    );
}

#[test]
fn exit_codes_tell_the_kind_of_error() {
    let world = World::new();
    let cases: &[(&[&str], i32, Option<&str>)] = &[
        (&["call", "echo", "message=x"], 0, None),
        (&["run", "false", "--set", "sandbox=none", "--set", "auto_approve=true"], 1, Some("tool_failed")),
        (&["call", "read_output", "call=c_01ARZ3NDEKTSV4RRFFQ69G5FAV"], 1, Some("not_found")),
        (&["call", "echo", "message=xyz", "--set", "limits.args_bytes=10"], 1, Some("too_large")),
        (&["call", "no_such_tool"], 2, Some("unknown_tool")),
        (&["call", "echo"], 2, Some("invalid_params")),
        (&["run", "rm -rf x"], 3, Some("blocked")),
        (&["call", "echo", "message=x", "--set", "tools.echo.enabled=false"], 3, Some("blocked")),
        (&["run", "touch x", "--set", "sandbox=none"], 4, Some("approval_required")),
        (&["call", "echo", "message=x", "--set", "tools.echo.approval=always"], 4, Some("approval_required")),
        (
            &["run", "sleep 9", "--timeout", "1", "--set", "sandbox=none", "--set", "auto_approve=true"],
            124,
            Some("timeout"),
        ),
    ];
    for (args, code, kind) in cases {
        let ended = world.run_with(&["--json"], args);
        assert_eq!(ended.code, Some(*code), "{args:?}: {ended:?}");
        assert_eq!(ended.json()["error"]["kind"].as_str(), *kind, "{args:?}");
        assert_eq!(ended.json()["ok"], kind.is_none());
    }
}

#[test]
fn without_the_sandbox_nothing_runs_and_the_exit_code_is_5() {
    let world = World::new();
    let mut command = world.helve(&["run", "--json", "--set", "sandbox=bwrap", "touch made"]);
    let ended: crate::world::Ended = command.env("PATH", world.path("user")).output().unwrap().into();
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert_eq!(ended.json()["error"]["kind"], "sandbox_unavailable");
    assert!(!world.workspace().join("made").exists());
}

#[test]
fn check_notes_that_the_sandbox_is_missing() {
    let world = World::new();
    let without = |args: &[&str]| -> crate::world::Ended {
        let args = [&["--set", "sandbox=bwrap"], args].concat();
        world.helve(&args).env("PATH", world.path("user")).output().unwrap().into()
    };
    let data = without(&["check", "--json", "ls"]).json();
    assert_eq!(data["verdict"], "allow");
    assert!(data["note"].as_str().unwrap().contains("sandbox_unavailable"), "{data}");
    let text = without(&["check", "ls"]);
    let note = "note: the call would fail with sandbox_unavailable: The sandbox bwrap is not installed";
    assert!(text.stderr.starts_with(note), "{text:?}");
    assert_eq!(without(&["check", "--json", "rm -rf x"]).json().get("note"), None);
    assert_eq!(without(&["check", "--json", "ls", "--set", "sandbox=none"]).json().get("note"), None);
    assert!(!world.path("state").exists());
}

#[test]
fn a_journal_that_cannot_be_written_is_a_fault_of_helves_own() {
    let world = World::new();
    let call = ["call", "echo", "message=x", "--json", "--session", SESSION];
    assert_eq!(world.run(&call).code, Some(0));
    std::fs::File::options()
        .append(true)
        .open(world.session().join("journal.jsonl"))
        .unwrap()
        .write_all(b"x\n")
        .unwrap();
    let ended = world.run(&call);
    assert_eq!(ended.code, Some(70), "{ended:?}");
    assert_eq!(ended.json()["error"]["kind"], "internal");
}

#[test]
fn no_argument_carries_an_approval() {
    let world = World::new();
    for key in ["approved", "approve", "auto_approve", "sandbox"] {
        let args = format!(r#"{{"command":"touch made","{key}":true}}"#);
        let ended = world.run(&["call", "exec", &args, "--set", "sandbox=none"]);
        assert!(matches!(ended.code, Some(2 | 4)), "{key}: {ended:?}");
    }
    assert!(!world.workspace().join("made").exists());
}

#[test]
fn a_bare_command_says_that_it_ran_bare() {
    let world = World::new();
    let ended = world.run_with(&BARE, &["run", "--json", "pwd"]);
    assert_eq!(ended.json()["sandbox"], json!({"backend": "none", "layers": []}));
    let workspace = world.workspace().canonicalize().unwrap();
    assert_eq!(ended.json()["content"][0]["text"], format!("{}\n", workspace.display()));
}

#[test]
fn run_takes_a_text_or_words_and_options() {
    let world = World::new();
    std::fs::create_dir(world.workspace().join("sub dir")).unwrap();
    let bare = |args: &[&str]| world.run_with(&BARE, args).quiet();
    assert_eq!(bare(&["run", "echo a  b | tr a-b x-y"]), (Some(0), "x y\n".into()));
    assert_eq!(
        bare(&["run", "--", "printf", "%s|", "a  b", "$HOME", "it's"]),
        (Some(0), "a  b|$HOME|it's|\n".into())
    );
    assert_eq!(
        bare(&["run", "--working-dir", "sub dir", "basename \"$PWD\""]),
        (Some(0), "sub dir\n".into())
    );
}

#[test]
fn a_timeout_of_any_size_is_brought_into_range_or_refused() {
    let world = World::new();
    for (given, set_to) in [("0", "1"), ("-1", "1"), ("-9000000000", "1"), ("9000000000", "600")] {
        let ended = world.run_with(&BARE, &["run", "--timeout", given, "echo hi"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "hi\n"), "{given}: {ended:?}");
        let note = format!("note: /timeout: {given} is out of range and was set to {set_to}\n");
        assert_eq!(ended.stderr, note, "{given}");
    }
    for given in ["1.5", "1s", "", "99999999999999999999", "-x"] {
        let ended = world.run_with(&BARE, &["run", &format!("--timeout={given}"), "touch made"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{given}: {ended:?}");
        assert!(ended.stderr.contains("write a whole number of seconds"), "{given}: {ended:?}");
    }
    assert!(!world.workspace().join("made").exists());
}

#[test]
fn a_blocked_command_starts_with_the_known_line() {
    let world = World::new();
    let ended = world.run(&["run", "rm -rf /"]);
    let first = ended.stdout.lines().next().unwrap();
    assert_eq!(first, "Error: Command blocked by safety guard (dangerous pattern detected)");
    assert!(ended.stdout.contains("guard.rm-recursive"), "{ended:?}");
}

#[test]
fn notes_go_to_standard_error() {
    let world = World::new();
    let ended = world.run(&["call", "echo", r#"{"message":"x","description":"why"}"#]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "x\n"));
    assert!(ended.stderr.starts_with("note: ") && ended.stderr.contains("description"), "{ended:?}");
}

#[test]
fn check_says_what_the_call_would_meet() {
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--set", "sandbox=none"], 4, "ask"),
        (&["--set", "sandbox=none", "--set", "auto_approve=true"], 0, "allow"),
        (&["--set", "tools.exec.enabled=false"], 3, "deny"),
        (&["--set", "sandbox=none", "--set", "tools.exec.approval=always"], 4, "ask"),
    ];
    for (options, code, verdict) in cases {
        let world = World::new();
        let checked = world.run_with(options, &["check", "--json", "touch made"]);
        assert_eq!(checked.code, Some(*code), "{options:?}: {checked:?}");
        assert_eq!(checked.json()["verdict"], *verdict, "{options:?}");
        let called = world.run_with(options, &["run", "--json", "touch made"]);
        assert_eq!(called.code, Some(*code), "{options:?}: {called:?}");
        let rules = (&checked.json()["rule"], &called.json()["decision"]["rule"]);
        assert_eq!(rules.0, rules.1, "{options:?}");
    }
}

#[test]
fn check_decides_and_runs_nothing() {
    let world = World::new();
    let allowed = world.run_with(&BARE, &["check", "touch made"]);
    let (code, told) = allowed.quiet();
    assert_eq!(code, Some(0));
    assert!(
        told.starts_with("allow: auto_approve\n  | touch made\n  programs       touch\n  writes "),
        "{told}"
    );
    let asked = world.run_with(&["--set", "sandbox=none"], &["check", "--json", "git push --force"]);
    assert_eq!((asked.code, &asked.json()["verdict"]), (Some(4), &json!("ask")));
    let denied = world.run(&["check", "--json", "ls; rm -rf x"]);
    assert_eq!(denied.code, Some(3));
    let denied = denied.json();
    let keys: Vec<&str> = denied.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["verdict", "rule", "reason", "span", "grant", "effects", "parts"]);
    assert_eq!((&denied["rule"], &denied["span"]), (&json!("guard.rm-recursive"), &json!([4, 12])));
    let text = world.run(&["check", "ls; rm -rf x"]).stdout;
    assert!(text.contains("\n  | ls; rm -rf x\n  |     ^^^^^^^^\n"), "{text}");
    let outside = world.run(&["check", "ls", "--working-dir", "/var/lib"]);
    assert_eq!(outside.code, Some(3), "{outside:?}");
    assert!(!world.path("state").exists(), "checking records nothing");
    assert!(!world.workspace().join("made").exists());
}

#[test]
fn check_says_what_a_command_does_part_by_part() {
    let world = World::new();
    let command = "cat notes.txt > copy; curl -s https://example.org/x; python3 -c 'print(1)'; rm -r old";
    let checked = world.run(&["check", "--json", command]).json();
    let effects = &checked["effects"];
    assert_eq!(effects["programs"], json!(["cat", "curl", "python3", "rm"]));
    let below = |name: &str| json!([world.workspace().canonicalize().unwrap().join(name)]);
    assert_eq!((&effects["reads"], &effects["writes"]), (&below("notes.txt"), &below("copy")));
    assert_eq!((&effects["hosts"], &effects["deletes"]), (&json!(["example.org:443"]), &below("old/**")));
    for list in ["privilege", "persistence", "secrets", "executes", "machine"] {
        assert_eq!(effects[list], json!([]), "{list}");
    }
    let opaque = &effects["opaque"][0];
    let (from, to) = (opaque["span"][0].as_u64().unwrap(), opaque["span"][1].as_u64().unwrap());
    assert!(command[from as usize..to as usize].contains("print(1)"), "{opaque}");
    let runs = effects["runs"].as_array().unwrap();
    assert_eq!((&runs[3]["argv"], &runs[3]["span"]), (&json!(["rm", "-r", "old"]), &json!([76, 85])));
    let parts = checked["parts"].as_array().unwrap();
    let verdicts: Vec<&str> = parts.iter().filter_map(|part| part["verdict"].as_str()).collect();
    assert_eq!(verdicts, ["allow", "allow", "allow", "deny"]);
    let told = world.run(&["check", command]).stdout;
    for part in [
        "  deny   rm -r old  ",
        "  network        example.org:443\n",
        "  cannot tell    it runs code",
        "To allow it: ",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn check_shows_what_hides() {
    let world = World::new();
    let told = world.run(&["check", "echo \u{202e}x\u{200b}\u{a0}; \trm -rf y"]).stdout;
    assert!(told.contains("  | echo \\u{202e}x\\u{200b}\\u{a0}; \\trm -rf y\n"), "{told}");
    let carets = told.lines().find(|line| line.contains('^')).unwrap();
    let below = told.lines().find(|line| line.contains("rm -rf y")).unwrap().find("rm -rf y").unwrap();
    assert_eq!(carets.find('^'), Some(below), "{told}");
}

#[test]
fn a_single_command_may_use_every_processor() {
    let allowed = |status: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .map(|list| list.trim().to_owned())
    };
    let outside = allowed(&std::fs::read_to_string("/proc/self/status").unwrap()).unwrap();
    let world = World::new();
    // The first call tries what the sandbox holds, and needs other helpers for that.
    assert_eq!(world.run(&["run", "true"]).code, Some(0));
    // The helper keeps away from Helve's own processor while it prepares; what it starts must not.
    let (code, inside) = world.run(&["run", "cat /proc/self/status"]).quiet();
    assert_eq!((code, allowed(&inside)), (Some(0), Some(outside)));
}
