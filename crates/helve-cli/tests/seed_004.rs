//! The shell tool, example by example: each test is named after what the description of `exec` promises.
//!
//! Where Helve does otherwise on purpose, the test says so:
//! - a command that ends with another code than 0 is a failed call; its text is the promised one;
//! - a refusal starts with the promised line and goes on with the rule, the reason and the way to allow it;
//! - what a command printed before its time was up follows the promised line;
//! - an allow list wants the whole of every part of a command, not a match anywhere in it.

mod support;

use pretty_assertions::assert_eq;
use serde_json::json;
use support::{BARE, Place, sandbox_works};

/// The first example: a listing.
#[test]
fn basic_command_execution() {
    if !sandbox_works() {
        return;
    }
    let place = Place::new();
    place.put("notes.txt", "x");
    let answer = place.call("exec", &json!({"command": "ls -la"}));
    let lines: Vec<&str> = answer.good().lines().collect();
    assert!(lines[0].starts_with("total "), "{lines:?}");
    assert!(lines[1].starts_with("drwx") && lines[1].ends_with(" ."), "{lines:?}");
    assert!(lines[2].starts_with("drwx") && lines[2].ends_with(" .."), "{lines:?}");
    assert!(lines[3].starts_with("-rw") && lines[3].ends_with(" notes.txt"), "{lines:?}");
    assert_eq!(lines.len(), 4);
    assert!(answer.is_in_own_sandbox(), "{:#}", answer.result);
}

/// The second example: a command in a directory that the call names, relative to the workspace or absolute.
#[test]
fn command_with_working_directory() {
    if !sandbox_works() {
        return;
    }
    let place = Place::new();
    let repo = place.workspace().join("path/to/repo");
    std::fs::create_dir_all(&repo).unwrap();
    let expected = format!("{}\n", repo.display());
    for working_dir in ["path/to/repo", repo.to_str().unwrap()] {
        for sandbox in [&[] as &[&str], BARE] {
            let args = json!({"command": "pwd", "working_dir": working_dir});
            assert_eq!(place.call_with("exec", &args, sandbox).good(), expected, "{working_dir} {sandbox:?}");
        }
    }
}

/// The second example with git itself, where it is installed.
#[test]
fn command_with_working_directory_of_a_repository() {
    if !sandbox_works() || !support::is_installed("git") {
        return;
    }
    let place = Place::new();
    std::fs::create_dir_all(place.workspace().join("path/to/repo")).unwrap();
    let git = |command: &str| place.call("exec", &json!({"command": command, "working_dir": "path/to/repo"}));
    git("git init -q -b trunk .").good();
    assert!(git("git status").good().starts_with("On branch trunk\n"));
    assert_eq!(place.exec("git status").code, 1, "the workspace itself is no repository");
}

/// Without `working_dir` in the call, the configured directory is taken, and without one the workspace.
#[test]
fn working_directory_defaults_to_the_configured_one_then_to_the_workspace() {
    let place = Place::new();
    std::fs::create_dir(place.workspace().join("sub")).unwrap();
    let pwd = |settings: &[&str]| {
        let settings = [BARE, settings].concat();
        place.exec_with("pwd", &settings).good().trim_end().to_owned()
    };
    assert_eq!(pwd(&[]), place.workspace().to_str().unwrap());
    assert_eq!(pwd(&["tools.exec.working_dir=sub"]), place.workspace().join("sub").to_str().unwrap());
}

/// The third example, to the letter. The call counts as failed.
#[test]
fn command_with_error_output() {
    let place = Place::new();
    for sandbox in [BARE, &[]] {
        if sandbox.is_empty() && !sandbox_works() {
            continue;
        }
        let answer = place.exec_with("cat nonexistent.txt", sandbox);
        assert_eq!(answer.text(), "STDERR:\ncat: nonexistent.txt: No such file or directory\n\nExit code: 1");
        assert_eq!((answer.code, answer.kind()), (1, Some("tool_failed")));
        assert_eq!(answer.result["details"]["exit_code"], 1);
    }
}

/// Standard output first, then standard error under its mark, then the exit code if it is not zero.
#[test]
fn return_value_is_stdout_then_stderr_then_exit_code() {
    let place = Place::new();
    let text = |command: &str| place.exec_with(command, BARE).text().to_owned();
    assert_eq!(text("echo out; echo err >&2; exit 3"), "out\nSTDERR:\nerr\n\nExit code: 3");
    assert_eq!(text("printf out; printf err >&2"), "out\nSTDERR:\nerr");
    assert_eq!(text("echo out"), "out\n");
    assert_eq!(text("exit 7"), "Exit code: 7");
}

/// The fourth example: the promised line comes first, then which rule, why, and what the owner could change.
#[test]
fn blocked_command() {
    let place = Place::new();
    let answer = place.call("exec", &json!({"command": "rm -rf /"}));
    answer.blocked("dangerous pattern detected");
    let lines: Vec<&str> = answer.text().lines().collect();
    assert!(lines[1].starts_with("Rule guard.rm-recursive: "), "{lines:?}");
    assert!(lines[1].ends_with("Found: rm -rf /"), "{lines:?}");
    assert!(answer.text().contains("tools.exec.deny_patterns = ["), "{lines:?}");
}

/// The fifth example, with one second instead of sixty: the promised line, then what was printed until then.
#[test]
fn command_timeout() {
    let place = Place::new();
    for sandbox in [BARE, &[]] {
        if sandbox.is_empty() && !sandbox_works() {
            continue;
        }
        let answer = place.call_with("exec", &json!({"command": "sleep 120", "timeout": 1}), sandbox);
        assert_eq!(answer.text(), "Error: Command timed out after 1 seconds");
        assert_eq!((answer.code, answer.kind()), (124, Some("timeout")));
        let args = json!({"command": "echo before; echo noise >&2; sleep 120", "timeout": 1});
        let answer = place.call_with("exec", &args, sandbox);
        assert_eq!(answer.text(), "Error: Command timed out after 1 seconds\nbefore\nSTDERR:\nnoise\n");
        assert_eq!(answer.result["details"]["timed_out"], true);
    }
}

/// Without a word about it, a command has sixty seconds.
#[test]
fn timeout_is_sixty_seconds_by_default() {
    let place = Place::new();
    place.exec_with("true", BARE).good();
    assert_eq!(place.journal()[0]["body"]["args"], json!({"command": "true", "timeout": 60}));
}

/// Output beyond 10,000 characters is cut: head and tail stay, the count of the rest is exact, the whole is kept.
#[test]
fn output_is_truncated_to_ten_thousand_characters() {
    let place = Place::new();
    let answer = place.exec_with("seq 1 5000", BARE);
    let whole: String = (1..=5000).map(|n| format!("{n}\n")).collect();
    let left_out = whole.len() - 10_000;
    let call = answer.result["call"].as_str().unwrap();
    let expected = format!(
        "{}\n\n... ({left_out} characters left out; call read_output with call \"{call}\" to see them) ...\n\n{}",
        &whole[..5000],
        &whole[whole.len() - 5000..]
    );
    assert_eq!(answer.good(), expected);
    assert_eq!(answer.result["truncated"]["chars"], left_out);
    assert_eq!(place.run(&["log", "--output", call]).stdout, whole);
}

/// Characters are counted, not bytes, and an output of exactly the limit stays whole.
#[test]
fn truncation_counts_characters() {
    let place = Place::new();
    let answer = place.exec_with("printf 'ä%.0s' $(seq 10000)", BARE);
    assert_eq!(answer.good(), "ä".repeat(10_000));
    assert_eq!(answer.result.get("truncated"), None);
    let answer = place.exec_with("printf 'ä%.0s' $(seq 10001)", BARE);
    assert!(answer.good().contains("... (1 characters left out; "), "{}", answer.text());
}

/// Every pattern that the description names is refused without being executed.
#[test]
fn safety_guards_block_every_named_pattern() {
    let place = Place::new();
    for command in [
        "rm -rf build",
        "rm -fr build",
        "rm -r -f build",
        "del /f notes.txt",
        "del /q notes.txt",
        "rmdir /s build",
        "format c:",
        "mkfs /dev/sda1",
        "mkfs.ext4 /dev/sda1",
        "diskpart",
        "dd if=/dev/zero of=disk.img",
        "shutdown -h now",
        "reboot",
        "poweroff",
        ":(){ :|:& };:",
        "bomb() { bomb | bomb & }; bomb",
    ] {
        place.exec_with(command, BARE).blocked("dangerous pattern detected");
        let hidden = format!("touch ran; {command}");
        place.exec_with(&hidden, BARE).blocked("dangerous pattern detected");
        assert!(!place.has("ran"), "{command}: a part of it ran");
    }
}

/// A pattern that is only data is no command: reading about `rm -rf` is not doing it.
#[test]
fn safety_guards_let_data_pass() {
    let place = Place::new();
    place.put("notes.txt", "never type rm -rf /\n");
    assert_eq!(place.exec_with("grep 'rm -rf' notes.txt", BARE).good(), "never type rm -rf /\n");
    assert_eq!(place.exec_with("echo reboot", BARE).good(), "reboot\n");
}

/// Each option of the description, in each of its spellings, from a file in each of the two formats.
#[test]
fn configuration_takes_every_option_in_both_spellings_and_formats() {
    let spellings = [
        ["timeout", "working_dir", "deny_patterns", "allow_patterns", "restrict_to_workspace", "path_append"],
        ["timeout", "workingDir", "denyPatterns", "allowPatterns", "restrictToWorkspace", "pathAppend"],
    ];
    for names in spellings {
        let place = Place::new();
        let programs = place.script("greet-from-path", "echo appended");
        std::fs::create_dir(place.workspace().join("sub")).unwrap();
        let deny = ["forbidden"];
        let allow = ["pwd", "sleep .*", "greet-from-path", "cat .*", "echo .*"];
        let values = [
            json!(1),
            json!("sub"),
            json!(deny),
            json!(allow),
            json!(true),
            json!(programs.to_str().unwrap()),
        ];
        let toml: String =
            names.iter().zip(&values).map(|(name, value)| format!("{name} = {value}\n")).collect();
        let exec: serde_json::Map<_, _> =
            names.iter().zip(&values).map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let json = json!({"sandbox": "none", "auto_approve": true, "tools": {"exec": exec}});
        for file in [
            format!("sandbox = \"none\"\nauto_approve = true\n[tools.exec]\n{toml}"),
            serde_json::to_string_pretty(&json).unwrap(),
        ] {
            place.configure(&file);
            let sub = place.workspace().join("sub");
            assert_eq!(place.exec("pwd").good(), format!("{}\n", sub.display()), "{file}");
            assert_eq!(place.exec("sleep 60").text(), "Error: Command timed out after 1 seconds", "{file}");
            place.exec("echo Forbidden words").blocked("dangerous pattern detected");
            place.exec("touch ran").blocked("not in allowlist");
            place.exec("cat ../../outside/x").blocked("path traversal detected");
            place.exec("cat /etc/hostname").blocked("path outside working dir");
            assert_eq!(place.exec("greet-from-path").good(), "appended\n", "{file}");
            assert!(!place.has("sub/ran"));
        }
    }
}

/// The owner's list of patterns replaces the one that comes with Helve.
#[test]
fn deny_patterns_replace_the_default_list() {
    let place = Place::new();
    let settings = [BARE, &["tools.exec.deny_patterns=[\"^git +push\"]"]].concat();
    place.exec_with("git push origin", &settings).blocked("dangerous pattern detected");
    place.exec_with("mkdir -p build && rm -rf build", &settings).good();
    place.exec_with("rm -rf build", BARE).blocked("dangerous pattern detected");
}

/// If an allow list is set, only what is on it runs; each part of a compound command has to be.
#[test]
fn allow_patterns_block_everything_else() {
    let place = Place::new();
    let settings = [BARE, &["tools.exec.allow_patterns=[\"echo .*\"]"]].concat();
    assert_eq!(place.exec_with("echo yes", &settings).good(), "yes\n");
    for command in
        ["touch ran", "echo yes; touch ran", "echo yes && touch ran", "echo $(touch ran)", "echo x > ran"]
    {
        place.exec_with(command, &settings).blocked("not in allowlist");
        assert!(!place.has("ran"), "{command}");
    }
    let nothing = [BARE, &["tools.exec.allow_patterns=[]"]].concat();
    place.exec_with("echo yes", &nothing).blocked("not in allowlist");
}

/// Off by default; switched on, no path of the command may lead out of the workspace.
#[test]
fn restrict_to_workspace_blocks_path_traversal() {
    let place = Place::new();
    std::fs::write(place.outside().join("letter"), "outside\n").unwrap();
    let command = "cat ../outside/letter";
    assert_eq!(place.exec_with(command, BARE).good(), "outside\n");
    for key in ["tools.exec.restrict_to_workspace=true", "tools.restrictToWorkspace=true"] {
        let settings = [BARE, &[key]].concat();
        place.exec_with(command, &settings).blocked("path traversal detected");
        let absolute = format!("cat {}/letter", place.outside().display());
        place.exec_with(&absolute, &settings).blocked("path outside working dir");
        assert_eq!(place.exec_with("echo in > letter; cat ./letter", &settings).good(), "in\n");
    }
}

/// A directory that the owner appends to PATH comes last, also in the sandbox, where it has to be shown first.
#[test]
fn path_append_adds_entries_at_the_end_of_path() {
    let place = Place::new();
    let dir = place.script("ls", "echo not the real one");
    place.script("only-here", "echo found");
    let dir = dir.to_str().unwrap();
    let append = format!("tools.exec.path_append={dir}");
    let open = format!("view.read_only=[\"{dir}\"]");
    let mut sandboxes = vec![vec!["sandbox=none", "auto_approve=true", append.as_str()]];
    if sandbox_works() {
        sandboxes.push(vec![append.as_str(), open.as_str()]);
    }
    for settings in sandboxes {
        let answer = place.exec_with("only-here; ls; echo $PATH", &settings);
        let lines: Vec<&str> = answer.good().lines().collect();
        assert_eq!((lines[0], lines.len()), ("found", 2), "{lines:?}");
        assert!(lines[1].ends_with(&format!(":{dir}")), "{lines:?}");
    }
}

/// An option that does not exist is an error that names the nearest, and nothing runs.
#[test]
fn an_unknown_option_is_refused() {
    let place = Place::new();
    place.configure("[tools.exec]\nallow_pattern = [\"ls\"]\n");
    let ran = place.run(&["run", "touch ran"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("allow_patterns"), "{ran:?}");
    assert!(!place.has("ran"));
}
