//! What the command sees, and what it can reach.

use std::io::ErrorKind;
use std::net::TcpListener;

use pretty_assertions::assert_eq;

use super::{backends, helve, run};
use crate::support::Place;

/// Each script tells by its exit code.
#[track_caller]
fn check(place: &Place, backend: &str, options: &[&str], script: &str, works: bool) {
    let ran = run(place, backend, options, script);
    assert_eq!(ran.code == 0, works, "{backend} {options:?} {script}: {ran:?}");
    assert!(ran.code < 124, "{backend} {options:?} {script}: {ran:?}");
}

#[test]
fn paths_are_read_only_writable_or_hidden_as_asked() {
    for backend in backends() {
        let place = Place::new();
        let outside = place.outside();
        std::fs::write(outside.join("file"), "outside").unwrap();
        std::fs::create_dir(place.workspace().join("inner")).unwrap();
        place.put("inner/file", "inner");
        place.put("kept", "kept");
        let there = outside.to_str().unwrap();
        let cases: &[(&[&str], String, bool)] = &[
            (&[], "echo new > made && test -e made".into(), true),
            (&[], format!("cat {there}/file"), false),
            (&["--ro", there], format!("cat {there}/file"), true),
            (&["--ro", there], format!("echo x >> {there}/file"), false),
            (&["--rw", there], format!("echo x > {there}/made"), true),
            (&["--rw", there, "--ro", there], format!("echo x > {there}/twice"), false),
            (&["--ro", "."], "cat kept".into(), true),
            (&["--ro", "."], "echo x > other".into(), false),
        ];
        for (options, script, works) in cases {
            check(&place, backend, options, script, *works);
        }
        let inside: &[(&[&str], &str, bool)] = &[
            (&["--ro", "inner"], "echo x > inner/other", false),
            (&["--ro", "inner"], "cat inner/file && echo x > beside", true),
            (&["--hide", "inner"], "cat inner/file", false),
            (&["--hide", "kept"], "grep kept kept", false),
            (&["--hide", "kept", "--ro", "kept"], "grep kept kept", false),
        ];
        for (options, script, works) in inside {
            if *backend == "landlock" {
                // It says so rather than to let the command do what it must not.
                let ran = run(&place, backend, options, script);
                assert_eq!(ran.code, 125, "{options:?}: {ran:?}");
                assert!(ran.stderr.contains("Landlock can take nothing away"), "{options:?}: {ran:?}");
            } else {
                check(&place, backend, options, script, *works);
                assert_eq!(
                    place.has("beside"),
                    options.contains(&"--ro") && *works,
                    "{backend}: {options:?}"
                );
                let _ = std::fs::remove_file(place.workspace().join("beside"));
            }
        }
        assert!(place.has("made") && !place.has("other"), "{backend}");
        assert!(outside.join("made").exists() && !outside.join("twice").exists(), "{backend}");
        assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "outside", "{backend}");
        assert_eq!(std::fs::read_to_string(place.workspace().join("kept")).unwrap(), "kept", "{backend}");
    }
}

#[test]
fn helves_own_state_and_configuration_are_not_there() {
    for backend in backends() {
        let place = Place::new();
        place.configure("# nothing");
        std::fs::create_dir_all(place.home()).unwrap();
        std::fs::write(place.home().join("secret"), "canary").unwrap();
        let root = place.root();
        let (home, root) = (place.home(), root.to_str().unwrap());
        let home = home.to_str().unwrap();
        check(&place, backend, &["--ro", root], &format!("grep -r canary {home}"), false);
        check(
            &place,
            backend,
            &["--ro", root],
            &format!("grep nothing {root}/config/helve/helve.toml"),
            false,
        );
        let refused = run(&place, backend, &["--rw", root], "true");
        assert_eq!(refused.code, 125, "{backend}: {refused:?}");
        assert!(refused.stderr.contains("Helve's own state"), "{backend}: {refused:?}");
    }
}

#[test]
fn what_the_sandbox_has_of_its_own_is_named_where_it_cannot_be_shown() {
    if !backends().contains(&"native") {
        return;
    }
    let place = Place::new();
    for (option, path, own) in [
        ("--rw", "/dev", "/dev"),
        ("--ro", "/dev/null", "/dev"),
        ("--hide", "/dev", "/dev"),
        ("--hide", "/proc", "/proc"),
    ] {
        let ran = run(&place, "native", &[option, path], "true");
        assert_eq!(ran.code, 125, "{option} {path}: {ran:?}");
        let message = format!("error: {path} cannot be shown or hidden: the sandbox has {own} of its own.");
        assert!(ran.stderr.starts_with(&message), "{option} {path}: {ran:?}");
        assert!(ran.stderr.contains(&format!("Leave {path} out of --ro")), "{option} {path}: {ran:?}");
    }
}

/// The owner's command is not a call: nothing is kept about it.
#[test]
fn nothing_is_recorded() {
    for backend in backends() {
        let place = Place::new();
        check(&place, backend, &[], "true", true);
        assert!(!place.home().join("sessions").exists(), "{backend}");
    }
}

#[test]
fn the_environment_holds_what_was_asked_for() {
    for backend in backends() {
        let place = Place::new();
        let script = "echo \"$GIVEN|$PASSED|$KEPT|$EMPTY|$TERM\"";
        let options = ["--env", "GIVEN=a=b", "--env", "PASSED", "--env", "EMPTY="];
        let mut command = helve(&place, backend, &options, &["sh", "-c", script]);
        let output =
            command.env("PASSED", "here").env("KEPT", "secret").env("TERM", "xterm").output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "a=b|here|||dumb\n", "{backend}");
    }
}

#[test]
fn it_starts_where_its_caller_stands() {
    for backend in backends() {
        let place = Place::new();
        let inner = place.workspace().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        let workspace = place.workspace();
        let workspace = workspace.to_str().unwrap();
        let start = |from: &std::path::Path| {
            let mut command = helve(&place, backend, &["--workspace", workspace], &["pwd"]);
            String::from_utf8(command.current_dir(from).output().unwrap().stdout).unwrap()
        };
        assert_eq!(start(&inner), format!("{}\n", inner.display()), "{backend}");
        assert_eq!(start(&place.outside()), format!("{workspace}\n"), "{backend}");
    }
}

#[test]
fn the_network_is_there_only_when_asked_for() {
    for backend in backends() {
        let place = Place::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
        let came = |net: &str| {
            let ran = place.run(&super::words(backend, &["--net", net], &["bash", "-c", &connect]));
            let accepted = listener.accept();
            if let Err(error) = &accepted {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
            }
            (ran.code == 0, accepted.is_ok())
        };
        assert_eq!(came("none"), (false, false), "{backend}");
        assert_eq!(came("host"), (true, true), "{backend}");
    }
}
