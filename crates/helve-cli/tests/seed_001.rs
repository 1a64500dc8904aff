//! The command wrapper, example by example: each test is named after what its description promises.
//!
//! Where Helve does otherwise on purpose, the test says so:
//! - an empty wrapper does not mean bare: commands run in the default sandbox;
//! - the values are not replaced as plain text: each is quoted for the place in which it stands, so that the wrapper
//!   gets the whole command; `{command:raw}` keeps the plain replacement;
//! - a command in a wrapper needs approval, because Helve cannot vouch for a sandbox that is not its own.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod support;

use std::path::PathBuf;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Answer, Place, bwrap_works, firejail_works, sandbox_works};

const BUBBLEWRAP: &str = "bwrap --ro-bind /usr /usr --ro-bind-try /bin /bin --ro-bind-try /lib /lib \
    --ro-bind-try /lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp --bind {cwd} {cwd} --chdir {cwd} -- sh -c \"{command}\"";
const FIREJAIL: &str = "firejail --noprofile --private={cwd} -- {command}";
const NSJAIL: &str = "nsjail -Mo --chroot /sandbox --cwd {cwd} -- {command}";

/// A place whose configuration is the JSON of the examples, with the owner's approval given in advance.
fn wrapped(template: &str) -> Place {
    configured(json!({"auto_approve": true, "tools": {"exec": {"commandWrapper": template}}}))
}

fn configured(configuration: Value) -> Place {
    let place = Place::new();
    place.configure(&configuration.to_string());
    place
}

/// A place with a wrapper program that notes its arguments in `argv`, one a line, and runs what follows `--` with a
/// variable that says so.
fn recorded(name: &str, template: &str, more: Value) -> Place {
    let place = Place::new();
    let argv = place.root().join("argv");
    let script = format!(
        "printf '%s\\n' \"$@\" > {}\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nWRAPPED=yes exec \"$@\"",
        argv.display()
    );
    let programs = place.script(name, &script);
    let mut configuration = json!({
        "auto_approve": true,
        "tools": {"exec": {"commandWrapper": template, "pathAppend": programs.to_str().unwrap()}},
    });
    if let (Some(configuration), Some(more)) = (configuration.as_object_mut(), more.as_object()) {
        for (key, value) in more {
            let tools = configuration["tools"].as_object_mut().unwrap();
            tools.insert(key.clone(), value.clone());
        }
    }
    place.configure(&configuration.to_string());
    place
}

fn argv(place: &Place) -> Option<String> {
    std::fs::read_to_string(argv_path(place)).ok()
}

fn argv_path(place: &Place) -> PathBuf {
    place.root().join("argv")
}

/// A command ran in the wrapper, which counts as no layer of Helve's own.
#[track_caller]
fn in_wrapper(answer: &Answer) -> &str {
    assert_eq!(answer.result["sandbox"], json!({"backend": "wrapper", "layers": []}), "{:#}", answer.result);
    answer.good()
}

/// The pid namespace in which a command of the host would run.
fn host_namespace() -> String {
    std::fs::read_link("/proc/self/ns/pid").unwrap().display().to_string()
}

/// Commands whose parts a plain replacement would run outside the wrapper. Each part leaves its mark in a file of
/// the workspace: the word of `$MARK`, which the shell expands where the part really runs.
const PARTS: &[(&str, &[&str])] = &[
    ("MARK > a && MARK > b", &["a", "b"]),
    ("MARK > a; MARK > b", &["a", "b"]),
    ("MARK > a | MARK > b", &["a", "b"]),
    ("false || MARK > b", &["b"]),
    ("echo \"$(MARK > a)\"", &["a"]),
    ("echo `MARK > a`", &["a"]),
    ("echo '\"'; MARK > a; echo \"'\"", &["a"]),
    ("echo \"it's\" && MARK > a", &["a"]),
    ("MARK > a\nMARK > b", &["a", "b"]),
    ("MARK > a & wait", &["a"]),
];

/// Runs every one of [`PARTS`] with `mark` as the marking command and gives the marks to `judge`.
fn each_mark(place: &Place, mark: &str, judge: impl Fn(&str) -> bool) {
    for (command, files) in PARTS {
        let command = command.replace("MARK", mark);
        in_wrapper(&place.exec(&command));
        for file in *files {
            let path = place.workspace().join(file);
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(judge(text.trim()), "{command}: {file} has {text:?}");
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// The first example with the real program: the system is there to read, the workspace to write, nothing else.
#[test]
fn example_bubblewrap() {
    if !bwrap_works() {
        return;
    }
    let place = wrapped(BUBBLEWRAP);
    std::fs::write(place.outside().join("letter"), "secret").unwrap();
    let workspace = place.workspace();
    assert_eq!(in_wrapper(&place.exec("pwd")), format!("{}\n", workspace.display()));
    assert_eq!(in_wrapper(&place.exec("echo made > file && cat file")), "made\n");
    assert!(place.has("file"));
    let letter = format!("cat {}/letter", place.outside().display());
    assert_eq!(place.exec(&letter).result["details"]["exit_code"], 1);
    assert_eq!(place.exec("touch /usr/file").result["details"]["exit_code"], 1);
}

/// With `sh -c "{command}"` the outer shell would run `$(…)` itself; here everything runs inside.
#[test]
fn example_bubblewrap_keeps_the_whole_command_inside() {
    if !bwrap_works() {
        return;
    }
    let place = wrapped(BUBBLEWRAP);
    // The host's root has what this wrapper does not bind.
    assert!(std::path::Path::new("/etc").exists());
    each_mark(&place, "{ test -e /etc && echo outside || echo inside; }", |mark| mark == "inside");
}

/// The second example with the real program, where it works for this user.
#[test]
fn example_firejail() {
    if !firejail_works() {
        return;
    }
    let place = wrapped(FIREJAIL);
    let answer = place.exec("readlink /proc/self/ns/pid");
    let namespace = in_wrapper(&answer).lines().find(|line| line.starts_with("pid:")).unwrap();
    assert_ne!(namespace, host_namespace());
}

/// Without `sh -c` the outer shell would run what follows `&&` itself; here everything runs inside.
#[test]
fn example_firejail_keeps_the_whole_command_inside() {
    if !firejail_works() {
        return;
    }
    let place = wrapped(FIREJAIL);
    let host = host_namespace();
    each_mark(&place, "readlink /proc/self/ns/pid", |mark| mark.starts_with("pid:") && mark != host);
}

/// The third example with a program of that name that notes how it was called.
#[test]
fn example_nsjail() {
    let place = recorded("nsjail", NSJAIL, json!({}));
    assert_eq!(in_wrapper(&place.exec("echo $WRAPPED")), "yes\n");
    let workspace = place.workspace();
    assert_eq!(
        argv(&place).unwrap(),
        format!("-Mo\n--chroot\n/sandbox\n--cwd\n{}\n--\nsh\n-c\necho $WRAPPED\n", workspace.display())
    );
}

/// The same for the third example: a compound command reaches the wrapper as one argument of `sh -c`.
#[test]
fn example_nsjail_keeps_the_whole_command_inside() {
    let place = recorded("nsjail", NSJAIL, json!({}));
    each_mark(&place, "echo \"${WRAPPED:-no}\"", |mark| mark == "yes");
}

/// Deviation: no wrapper, or an empty one, means the default sandbox and not a bare command.
#[test]
fn an_empty_wrapper_does_not_run_commands_bare() {
    if !sandbox_works() {
        return;
    }
    for configuration in [json!({}), json!({"tools": {"exec": {"commandWrapper": ""}}})] {
        let place = configured(configuration);
        let answer = place.exec("readlink /proc/self/ns/pid");
        assert_ne!(answer.good().trim(), host_namespace());
        assert!(answer.is_in_own_sandbox(), "{:#}", answer.result);
    }
}

/// The two placeholders: the command, and the absolute path of the directory in which it starts.
#[test]
fn placeholders_are_command_and_cwd() {
    let place = wrapped("env HERE={cwd} sh -c {command}");
    let sub = place.workspace().join("a dir; with $(odd) 'name'");
    std::fs::create_dir(&sub).unwrap();
    let args =
        json!({"command": "printf '%s|%s' \"$HERE\" \"$PWD\"", "working_dir": "a dir; with $(odd) 'name'"});
    let expected = format!("{0}|{0}", sub.display());
    assert_eq!(in_wrapper(&place.call("exec", &args)), expected);
}

/// Deviation: the description warns that quotes around `{command}` break on commands with the same quotes. Here each
/// kind of quotes works with each kind of command.
#[test]
fn quotes_around_the_command_do_not_break() {
    for template in ["sh -c '{command}'", "sh -c \"{command}\"", "sh -c {command}", "env {command}"] {
        let place = wrapped(template);
        let command = "printf '%s' \"it's \\\"quoted\\\" \\$HOME `printf x`\" '; $(y) \\'";
        assert_eq!(in_wrapper(&place.exec(command)), "it's \"quoted\" $HOME x; $(y) \\", "{template}");
    }
}

/// `{command:raw}` is the plain replacement of the description, for who wants it: the outer shell reads the command,
/// and what follows `&&` is not in the wrapper.
#[test]
fn raw_command_is_replaced_as_plain_text() {
    let place = recorded("nsjail", "nsjail -- {command:raw}", json!({}));
    let command = "sh -c 'echo ${WRAPPED:-no}' && echo ${WRAPPED:-no}";
    assert_eq!(in_wrapper(&place.exec(command)), "yes\nno\n");
    assert_eq!(argv(&place).unwrap(), "--\nsh\n-c\necho ${WRAPPED:-no}\n");
}

/// The template is trusted configuration: the guard judges the command before it is wrapped, not the wrapper's words.
#[test]
fn guard_judges_the_original_command_not_the_template() {
    let place = recorded(
        "careful",
        "careful 'rm -rf' /etc/passwd -- {command}",
        json!({"restrictToWorkspace": true}),
    );
    assert_eq!(in_wrapper(&place.exec("echo fine")), "fine\n");
    std::fs::remove_file(argv_path(&place)).unwrap();
    place.exec("rm -rf build").blocked("dangerous pattern detected");
    assert_eq!(argv(&place), None, "the wrapper was started for a refused command");
}

/// A template that cannot carry the command is an error of the configuration, said before anything runs.
#[test]
fn a_template_without_the_command_is_refused() {
    let place = wrapped("firejail --private={cwd} -- sh");
    let ran = place.run(&["run", "touch ran"]);
    assert!(ran.code == 2 && ran.stderr.contains("{command}"), "{ran:?}");
    assert!(!place.has("ran"));
}

/// Deviation: a wrapped command is not contained by Helve, so a person has to agree, or the owner in advance.
#[test]
fn a_wrapped_command_needs_approval() {
    let place = configured(json!({"tools": {"exec": {"commandWrapper": "env {command}"}}}));
    let answer = place.exec("touch ran");
    assert_eq!((answer.code, answer.kind()), (4, Some("approval_required")));
    assert!(!place.has("ran"));
    place.exec_with("touch ran", &["auto_approve=true"]).good();
    assert!(place.has("ran"));
}

/// The first of four combinations: neither. The command runs in the default sandbox, which hides what is outside.
#[test]
fn neither_wrapper_nor_restriction() {
    if !sandbox_works() {
        return;
    }
    let place = with_letter(configured(json!({})));
    let answer = place.exec("cat ../outside/letter");
    assert_eq!((answer.kind(), answer.is_in_own_sandbox()), (Some("tool_failed"), true));
    assert!(!answer.text().contains("secret"));
}

/// The second: restriction alone. The command is refused before anything runs.
#[test]
fn restriction_without_wrapper() {
    let place = with_letter(configured(json!({"tools": {"restrictToWorkspace": true}})));
    place.exec("cat ../outside/letter").blocked("path traversal detected");
    place.exec(&absolute_letter(&place)).blocked("path outside working dir");
    if sandbox_works() {
        assert_eq!(place.exec("cat inside").good(), "harmless");
    }
}

/// The third: wrapper alone. The guard does not look at paths, and this wrapper keeps nothing out.
#[test]
fn wrapper_without_restriction() {
    let place = with_letter(recorded("nsjail", NSJAIL, json!({})));
    assert_eq!(in_wrapper(&place.exec("cat ../outside/letter")), "secret");
    assert_eq!(in_wrapper(&place.exec(&absolute_letter(&place))), "secret");
}

/// The fourth: both. What stays in the workspace goes through the wrapper, the rest never reaches it.
#[test]
fn wrapper_and_restriction() {
    let place = with_letter(recorded("nsjail", NSJAIL, json!({"restrictToWorkspace": true})));
    place.exec("cat ../outside/letter").blocked("path traversal detected");
    place.exec(&absolute_letter(&place)).blocked("path outside working dir");
    assert_eq!(argv(&place), None, "the wrapper was started for a refused command");
    assert_eq!(in_wrapper(&place.exec("cat inside")), "harmless");
    assert!(argv(&place).is_some());
}

fn with_letter(place: Place) -> Place {
    std::fs::write(place.outside().join("letter"), "secret").unwrap();
    place.put("inside", "harmless");
    place
}

fn absolute_letter(place: &Place) -> String {
    format!("cat {}/letter", place.outside().display())
}
