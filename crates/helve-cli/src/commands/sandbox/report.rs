//! What is said of a command that has ended, and the exit code that `helve sandbox` ends with.

use std::time::Duration;

use helve::sandbox::{Ended, Explained, LimitHit};
use helve::{ErrorKind, Exit, ToolError, WireError};
use serde_json::{Value, json};

use super::amounts::show_bytes;

/// The command ran longer than it may.
const TIMED_OUT: u8 = 124;
/// Helve itself could not do what was asked: the command did not run, or what it would change could not be kept.
pub(crate) const FAILED: u8 = 125;
/// The program is there, but cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// The program is not there.
const NOT_FOUND: u8 = 127;
/// Added to the number of the signal that ended the command.
const SIGNALED: i32 = 128;

/// The exit code for how a command ended. `caught` is the signal that had Helve take it back.
pub(super) fn exit_code(exit: Exit, caught: Option<i32>) -> u8 {
    match exit {
        Exit::Code(code) => low_byte(code),
        Exit::Signal(signal) => low_byte(SIGNALED + signal),
        Exit::TimedOut => TIMED_OUT,
        Exit::Cancelled => caught.map_or(FAILED, |signal| low_byte(SIGNALED + signal)),
    }
}

/// An exit status holds no more.
fn low_byte(code: i32) -> u8 {
    let [.., low] = code.to_be_bytes();
    low
}

/// The exit code for a command that did not run.
pub(super) fn failure_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::NotFound => NOT_FOUND,
        ErrorKind::ToolFailed | ErrorKind::TooLarge => NOT_EXECUTABLE,
        _ => FAILED,
    }
}

/// The report of a command that ended.
pub(super) fn ended(ended: &Ended, denied: &[Explained], code: u8, duration: Duration) -> Value {
    let (how, signal) = match ended.exit {
        Exit::Code(_) => ("exited", None),
        Exit::Signal(signal) => ("signaled", Some(signal)),
        Exit::TimedOut => ("timed_out", None),
        Exit::Cancelled => ("cancelled", None),
    };
    let limit = ended.limit.map(|hit| {
        let (name, value) = limit(hit);
        json!({"name": name, "value": value})
    });
    json!({
        "ended": how,
        "exit_code": code,
        "signal": signal,
        "limit": limit,
        "left_running": ended.left_running,
        "denied": denied,
        "sandbox": ended.sandbox,
        "duration_us": micros(duration),
    })
}

/// The report of a command that did not run.
pub(super) fn not_started(error: &ToolError, code: u8, duration: Duration) -> Value {
    json!({
        "ended": "not_started",
        "exit_code": code,
        "error": self::error(error),
        "duration_us": micros(duration),
    })
}

/// What is wrong, for programs.
pub(super) fn error(error: &ToolError) -> Value {
    json!(WireError::from(error.clone()))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The name of a bound in the report, and how much it allows.
fn limit(hit: LimitHit) -> (&'static str, Option<u64>) {
    match hit {
        LimitHit::Memory(bytes) => ("memory", Some(bytes)),
        LimitHit::Processes(count) => ("processes", Some(count)),
        LimitHit::Cpu(seconds) => ("cpu", Some(seconds)),
        LimitHit::Disk(bytes) => ("disk", Some(bytes)),
        LimitHit::File(bytes) => ("file", Some(bytes)),
        LimitHit::Layer(bytes) => ("layer", Some(bytes)),
        LimitHit::SystemCall => ("system_call", None),
    }
}

/// What a person is told beside the exit code; nothing about an ordinary ending.
pub(super) fn note(ended: &Ended, time: Option<Duration>) -> Option<String> {
    if let Some(hit) = ended.limit {
        return Some(match hit {
            LimitHit::Memory(bytes) => {
                format!("the command used more than {} of memory (--mem)", show_bytes(bytes))
            }
            LimitHit::Processes(count) => {
                format!("the command had more than {count} processes and threads at a time (--pids)")
            }
            LimitHit::Cpu(seconds) => {
                format!("the command used more than {seconds} seconds of processor time (--cpu)")
            }
            LimitHit::Disk(bytes) => {
                format!("the free space of the disk fell by more than {} (--disk)", show_bytes(bytes))
            }
            LimitHit::File(bytes) => {
                format!("a file would have grown beyond {} (--disk)", show_bytes(bytes))
            }
            LimitHit::Layer(bytes) => {
                let bytes = show_bytes(bytes);
                format!("what the command would change took more than {bytes} (limits.exec_layer_bytes)")
            }
            LimitHit::SystemCall => {
                "the command made a system call that the sandbox does not allow".to_owned()
            }
        });
    }
    let time = time.filter(|_| ended.exit == Exit::TimedOut)?;
    Some(format!("the command ran longer than {} seconds (--time)", time.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve::SandboxReport;
    use pretty_assertions::assert_eq;

    #[test]
    fn exit_codes_are_those_of_shells_and_timeout() {
        assert_eq!(exit_code(Exit::Code(3), None), 3);
        assert_eq!(exit_code(Exit::Code(256), None), 0);
        assert_eq!(exit_code(Exit::Signal(9), None), 137);
        assert_eq!(exit_code(Exit::TimedOut, None), 124);
        assert_eq!(exit_code(Exit::Cancelled, Some(15)), 143);
        let kinds =
            [ErrorKind::NotFound, ErrorKind::ToolFailed, ErrorKind::SandboxUnavailable, ErrorKind::Blocked];
        assert_eq!(kinds.map(failure_code), [127, 126, 125, 125]);
    }

    #[test]
    fn a_report_says_all_of_an_ending() {
        let sandbox = SandboxReport { backend: "native".into(), layers: vec!["userns".into()] };
        let mut end = Ended::plain(Exit::Signal(9), sandbox);
        end.limit = Some(LimitHit::Memory(64 << 20));
        assert_eq!(
            ended(&end, &[], 137, Duration::from_millis(2)),
            json!({
                "ended": "signaled", "exit_code": 137, "signal": 9,
                "limit": {"name": "memory", "value": 67_108_864}, "left_running": 0, "denied": [],
                "sandbox": {"backend": "native", "layers": ["userns"]}, "duration_us": 2000,
            })
        );
        assert_eq!(note(&end, None).as_deref(), Some("the command used more than 64 MiB of memory (--mem)"));
        end.limit = None;
        assert_eq!(note(&end, Some(Duration::from_secs(1))), None);
        end.exit = Exit::TimedOut;
        let told = note(&end, Some(Duration::from_millis(1500)));
        assert_eq!(told.as_deref(), Some("the command ran longer than 1.5 seconds (--time)"));
    }
}
