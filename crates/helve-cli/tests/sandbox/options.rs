//! Limits, reports, and options that cannot be kept.

use std::process::Command;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{backends, run, words};
use crate::support::{Place, Ran};

/// The report in the last line of standard error.
#[track_caller]
fn report(ran: &Ran) -> Value {
    let line = ran.stderr.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn a_command_ends_with_its_time() {
    for backend in backends() {
        let began = Instant::now();
        let script = "trap '' TERM; echo begun; sleep 60; sleep 60";
        let ran = run(&Place::new(), backend, &["--time", "0.5"], script);
        assert_eq!((ran.code, ran.stdout.as_str()), (124, "begun\n"), "{backend}: {ran:?}");
        assert_eq!(ran.stderr, "note: the command ran longer than 0.5 seconds (--time)\n", "{backend}");
        assert!(began.elapsed() < Duration::from_secs(20), "{backend}");
        let ran = run(&Place::new(), backend, &["--time", "0.5", "--json"], "sleep 60");
        assert_eq!(report(&ran)["ended"], "timed_out", "{backend}: {ran:?}");
    }
}

/// Only Helve's own sandbox bounds all processes together.
#[test]
fn the_limit_that_was_hit_is_named() {
    let cases: &[(&[&str], &str, &str, u64, &str)] = &[
        (
            &["--mem", "64M"],
            "exec head -c 400M /dev/zero > /tmp/x",
            "memory",
            64 << 20,
            "more than 64 MiB of memory (--mem)",
        ),
        (
            &["--pids", "16"],
            "i=0; while [ $i -lt 64 ]; do sleep 20 & i=$((i+1)); done; wait",
            "processes",
            16,
            "more than 16 processes and threads at a time (--pids)",
        ),
        (&["--cpu", "1"], "while :; do :; done", "cpu", 1, "more than 1 seconds of processor time (--cpu)"),
        (&["--disk", "4G"], "exec truncate -s 5G big", "file", 4 << 30, "beyond 4 GiB (--disk)"),
    ];
    if !backends().contains(&"native") {
        return;
    }
    for (options, script, name, value, note) in cases {
        let place = Place::new();
        let ran = run(&place, "native", &[options, &["--time", "60"][..]].concat(), script);
        assert!(ran.code != 0 && ran.code != 124, "{options:?}: {ran:?}");
        assert!(ran.stderr.contains(note), "{options:?}: {ran:?}");
        let ran = run(&place, "native", &[options, &["--json", "--time", "60"][..]].concat(), script);
        assert_eq!(report(&ran)["limit"], json!({"name": name, "value": value}), "{options:?}: {ran:?}");
    }
}

#[test]
fn a_report_tells_programs_how_it_ended() {
    for backend in backends() {
        let place = Place::new();
        let ran = run(&place, backend, &["--json"], "echo out; exit 3");
        assert_eq!((ran.code, ran.stdout.as_str()), (3, "out\n"), "{backend}");
        let mut told = report(&ran);
        if *backend == "bwrap" {
            // A process of bwrap itself may still be on its way out.
            told["left_running"] = json!(0);
        }
        assert_eq!(
            told,
            json!({
                "ended": "exited", "exit_code": 3, "signal": null, "limit": null, "left_running": 0, "denied": [],
                "sandbox": {"backend": backend, "layers": told["sandbox"]["layers"]},
                "duration_us": told["duration_us"],
            }),
            "{backend}"
        );
        let layers = told["sandbox"]["layers"].as_array().unwrap();
        assert!(layers.contains(&json!("seccomp")) && told["duration_us"].as_u64() > Some(0), "{told}");

        let ran = place.run(&words(backend, &["--json"], &["no-such-program"]));
        let told = report(&ran);
        assert_eq!((ran.code, &told["exit_code"], &told["ended"]), (127, &json!(127), &json!("not_started")));
        assert_eq!(told["error"]["kind"], "not_found", "{told}");
    }
}

#[test]
fn a_report_goes_where_it_is_wanted() {
    for backend in backends() {
        let place = Place::new();
        let file = place.root().join("report");
        let ran = run(&place, backend, &["--report", file.to_str().unwrap()], "echo err >&2");
        assert_eq!((ran.code, ran.stderr.as_str()), (0, "err\n"), "{backend}");
        let told: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(told["exit_code"], 0, "{backend}");

        let plain = place.helve();
        let mut shell = Command::new("bash");
        // The command itself does not get the descriptor.
        let script =
            "\"$0\" sandbox --backend \"$1\" --report /dev/fd/3 -- sh -c 'echo leak >&3' 3>&1 2>/dev/null";
        shell.args(["-c", script]).arg(plain.get_program()).arg(backend).env_clear();
        for (name, value) in plain.get_envs() {
            shell.env(name, value.unwrap());
        }
        let output = shell.current_dir(place.workspace()).output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&told["ended"], told["exit_code"] == 0), (&json!("exited"), false), "{backend}: {told}");
    }
}

#[test]
fn options_that_cannot_be_kept_are_refused_with_a_remedy() {
    let place = Place::new();
    let cases: &[(&[&str], &str)] = &[
        (&["--ro", "absent", "--", "true"], "Name a file or directory that is there"),
        (&["--rw", "absent", "--", "true"], "Name a file or directory that is there"),
        (&["--hide", "absent", "--", "true"], "Name a file or directory that is there"),
        (&["--hide", ".", "--", "true"], "choose another workspace"),
        (&["--ro", "/", "--", "true"], "Name the directories that commands need"),
        (&["--env", "UNSET_HERE", "--", "true"], "--env NAME=VALUE"),
        (&["--env", "=x", "--", "true"], "--env NAME=VALUE"),
        (&["--mem", "lots", "--", "true"], "such as 512M"),
        (&["--mem", "0", "--", "true"], "such as 512M"),
        (&["--time", "never", "--", "true"], "such as 90, 1.5s"),
        (&["--pids", "0", "--", "true"], "a whole number above 0"),
        (&["--cpu", "1.5", "--", "true"], "a whole number above 0"),
        (&["--net", "some", "--", "true"], "possible values: none, host"),
        (&["--backend", "docker", "--", "true"], "possible values: auto, native, landlock, bwrap"),
        (&["--workspace", "absent", "--", "true"], "--workspace DIR"),
        (&["--workspace", "/", "--", "true"], "--workspace DIR"),
        (&["--report", "absent/report", "--", "true"], "--report"),
        (&["--set", "nonsense=1", "--", "true"], "nonsense"),
        (&["--typo", "--", "true"], "--typo"),
        (&[], "COMMAND"),
    ];
    for (options, remedy) in cases {
        let ran = place.run(&[&["sandbox"], *options].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (125, ""), "{options:?}: {ran:?}");
        assert!(ran.stderr.contains(remedy), "{options:?}: {ran:?}");
        let told = place.run(&[&["--json", "sandbox"], *options].concat());
        let report: Value = serde_json::from_str(&told.stderr).unwrap_or_else(|_| panic!("{told:?}"));
        assert_eq!((told.code, &report["ended"]), (125, &json!("not_started")), "{options:?}: {told:?}");
        let error = &report["error"];
        let said = [&error["message"], &error["hint"]].map(|text| text.as_str().unwrap_or_default()).concat();
        assert!(error["kind"].is_string() && said.contains(remedy), "{options:?}: {told:?}");
    }
}

#[test]
fn words_after_the_program_are_its_own() {
    for backend in backends() {
        let place = Place::new();
        let ran = place.run(&["sandbox", "--backend", backend, "echo", "--json", "--mem", "-x", "--", "y"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "--json --mem -x -- y\n"), "{backend}: {ran:?}");
    }
}
