//! Standard streams, exit codes and signals are the command's own.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use rustix::process::{Pid, Signal, kill_process};

use super::{backends, helve, run, words};
use crate::support::Place;

fn piped(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn every_byte_passes_unchanged_in_both_directions() {
    let bytes: Vec<u8> = (0..=255).cycle().take(3 << 20).collect();
    for backend in backends() {
        let place = Place::new();
        let mut child = piped(&mut helve(&place, backend, &[], &["cat"]));
        let mut input = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            let bytes = &bytes;
            scope.spawn(move || input.write_all(bytes).unwrap());
            child.wait_with_output().unwrap()
        });
        assert!(output.stdout == bytes, "{backend}: {} bytes", output.stdout.len());
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{backend}");
    }
}

#[test]
fn each_stream_is_its_own() {
    for backend in backends() {
        let ran = run(&Place::new(), backend, &[], "echo out; echo err >&2");
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "out\n", "err\n"), "{backend}");
    }
}

#[test]
fn streams_can_be_opened_by_their_names() {
    for backend in backends() {
        let script = "cat /dev/stdin > /dev/stdout; echo err > /dev/stderr";
        let command = words(backend, &[], &["sh", "-c", script]);
        let ran = Place::new().run_with_input(&command, b"in\n");
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("in\n", "err\n"), "{backend}: {ran:?}");
    }
}

#[test]
fn nothing_waits_for_more() {
    for backend in backends() {
        let place = Place::new();
        let mut child = piped(&mut helve(&place, backend, &[], &["sh", "-c", "read a; echo got $a; cat"]));
        let mut input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        for (sent, expected) in [("one\n", "got one\n"), ("two\n", "two\n")] {
            input.write_all(sent.as_bytes()).unwrap();
            line.clear();
            output.read_line(&mut line).unwrap();
            assert_eq!(line, expected, "{backend}");
        }
        drop(input);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{backend}");
    }
}

/// Whoever reads the output of a command that closed it is not kept waiting by Helve. The processes of bwrap itself keep the
/// streams as long as they live.
#[test]
fn a_closed_stream_is_closed() {
    for backend in backends().iter().filter(|backend| **backend != "bwrap") {
        let place = Place::new();
        let began = Instant::now();
        let script = "echo last; exec >/dev/null <&1; touch closed; sleep 60";
        let mut child = piped(&mut helve(&place, backend, &[], &["sh", "-c", script]));
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "last\n", "{backend}");
        // And whoever writes to it is told.
        let mut input = child.stdin.take().unwrap();
        while input.write_all(&[0; 4096]).is_ok() {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "{backend}: nobody reads, and nothing is told"
            );
        }
        assert!(child.try_wait().unwrap().is_none(), "{backend}: it still runs");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(began.elapsed() < Duration::from_secs(40), "{backend}");
    }
}

#[test]
fn exit_codes_are_those_of_a_shell() {
    for backend in backends() {
        let place = Place::new();
        place.put("text", "no program");
        let cases: &[(&[&str], i32)] = &[
            (&["true"], 0),
            (&["sh", "-c", "exit 3"], 3),
            (&["sh", "-c", "exit 255"], 255),
            (&["sh", "-c", "kill -TERM $$"], 143),
            (&["sh", "-c", "kill -KILL $$"], 137),
            (&["sh", "-c", "kill -SEGV $$"], 139),
            (&["no-such-program"], 127),
            (&["./no-such-program"], 127),
            (&["./text"], 126),
            (&["./"], 126),
        ];
        for (command, code) in cases {
            let ran = place.run(&words(backend, &[], command));
            assert_eq!(ran.code, *code, "{backend}: {command:?}: {ran:?}");
            let told = ran.stderr.contains("error: ");
            assert_eq!(told, matches!(code, 126 | 127), "{backend}: {command:?}: {ran:?}");
        }
    }
}

#[test]
fn a_reader_that_leaves_ends_the_writer_as_without_a_sandbox() {
    for backend in backends() {
        let place = Place::new();
        let plain = place.helve();
        let mut shell = Command::new("bash");
        let script = "\"$0\" sandbox --backend \"$1\" -- yes | head -1; echo ${PIPESTATUS[*]}";
        shell.args(["-c", script]).arg(plain.get_program()).arg(backend).env_clear();
        shell.current_dir(place.workspace());
        for (name, value) in plain.get_envs() {
            shell.env(name, value.unwrap());
        }
        let output = shell.output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "y\n141 0\n", "{backend}");
    }
}

/// What the command does about a signal is its own matter. bwrap dies of it, and its command with it.
#[test]
fn a_signal_goes_to_the_command() {
    for backend in backends().iter().filter(|backend| **backend != "bwrap") {
        for (sent, name) in [(Signal::INT, "INT"), (Signal::TERM, "TERM"), (Signal::QUIT, "QUIT")] {
            let place = Place::new();
            let script =
                format!("trap 'echo caught; exit 7' {name}; echo ready; while :; do sleep 0.1; done");
            let mut child = piped(&mut helve(&place, backend, &[], &["sh", "-c", &script]));
            let mut output = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            signal(&child, sent);
            output.read_line(&mut line).unwrap();
            assert_eq!(line, "ready\ncaught\n", "{backend} {name}");
            assert_eq!(child.wait().unwrap().code(), Some(7), "{backend} {name}");
        }
    }
}

/// One that dies of the signal is seen to do so, as without Helve: a script ends at Ctrl-C.
#[test]
fn who_dies_of_a_signal_takes_helve_along() {
    for backend in backends() {
        for sent in [Signal::INT, Signal::TERM] {
            let place = Place::new();
            let mut child =
                piped(&mut helve(&place, backend, &[], &["sh", "-c", "echo ready; exec sleep 60"]));
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            signal(&child, sent);
            let status = child.wait().unwrap();
            assert_eq!(status.signal(), Some(sent.as_raw()), "{backend}: {status:?}");
        }
    }
}

/// The second signal ends Helve visibly, and the whole tree with it: its end of the output closes.
#[test]
fn a_second_signal_ends_everything() {
    for backend in backends() {
        for sent in [Signal::INT, Signal::TERM, Signal::QUIT] {
            let place = Place::new();
            let script = "trap '' INT TERM QUIT HUP; setsid sleep 60 & echo ready; sleep 60; sleep 60";
            let mut child = piped(&mut helve(&place, backend, &[], &["sh", "-c", script]));
            let mut output = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            let began = Instant::now();
            signal(&child, sent);
            // Two of a kind that come at once count as one.
            std::thread::sleep(Duration::from_millis(200));
            if child.try_wait().unwrap().is_none() {
                signal(&child, sent);
            }
            let status = child.wait().unwrap();
            assert_eq!(status.signal(), Some(sent.as_raw()), "{backend}: {status:?}");
            output.read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n", "{backend}");
            assert!(began.elapsed() < Duration::from_secs(20), "{backend}: {:?}", began.elapsed());
        }
    }
}

#[test]
fn a_killed_helve_takes_its_command_along() {
    for backend in backends() {
        let place = Place::new();
        let script = "setsid sleep 60 & echo ready; sleep 60; sleep 60";
        let mut child = piped(&mut helve(&place, backend, &[], &["sh", "-c", script]));
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let began = Instant::now();
        child.kill().unwrap();
        child.wait().unwrap();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{backend}");
        assert!(began.elapsed() < Duration::from_secs(20), "{backend}: {:?}", began.elapsed());
    }
}

#[test]
fn what_runs_in_the_background_ends_with_the_command() {
    for backend in backends() {
        let began = Instant::now();
        let ran = run(&Place::new(), backend, &[], "sleep 60 & setsid sleep 60 & echo done");
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{backend}");
        assert!(began.elapsed() < Duration::from_secs(20), "{backend}: {:?}", began.elapsed());
    }
}
