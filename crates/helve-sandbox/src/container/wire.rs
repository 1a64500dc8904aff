//! What Helve and the helper inside a container say to each other, over one stream.
//!
//! A frame is a kind, a number that names the request it belongs to, a length and so many bytes. Requests and answers of
//! different numbers may come between each other. Whoever closes the stream ends the container.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use helve_core::{
    ErrorKind, Exit, Explain, LimitHit, Network, ProcessLimits, ShellJob, ToolError, View, WireError, Work,
};
use serde_json::{Value, json};

use crate::numbers;

/// The largest frame; as large as the largest request about files, and a little more.
pub(super) const MOST_BYTES: usize = (1 << 30) + (1 << 20);

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// To the helper, first: what the container is for, see [`Setup`].
    Setup = 1,
    /// From the helper: it is ready, see [`Ready`]; or why it is not.
    Ready = 2,
    /// To the helper: run this, see [`encode_job`].
    Run = 3,
    /// From the helper: bytes of standard output.
    Stdout = 4,
    /// From the helper: bytes of standard error.
    Stderr = 5,
    /// From the helper: how the command ended, see [`Done`]. Nothing of it is left then.
    Done = 6,
    /// To the helper: the request is taken back.
    Cancel = 7,
    /// To the helper: a request about files, as the bridge wrote it.
    Files = 8,
    /// From the helper: the answer to it.
    Answer = 9,
    /// From the helper: why there is no answer.
    NoAnswer = 10,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::*;
        [Setup, Ready, Run, Stdout, Stderr, Done, Cancel, Files, Answer, NoAnswer]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// One frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) id: u32,
    pub(super) bytes: Vec<u8>,
}

/// Writes one frame in one piece.
pub(super) fn send(stream: &mut impl Write, kind: Kind, id: u32, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= MOST_BYTES);
    let length = length.ok_or_else(|| io::Error::other("the message is too large"))?;
    let mut head = [0; 9];
    let [kind_at, rest @ ..] = &mut head;
    *kind_at = kind as u8;
    let (id_at, length_at) = rest.split_at_mut(4);
    id_at.copy_from_slice(&id.to_le_bytes());
    length_at.copy_from_slice(&length.to_le_bytes());
    if bytes.len() <= 4096 {
        // A small frame wakes the other side once.
        return stream.write_all(&[&head, bytes].concat());
    }
    stream.write_all(&head)?;
    stream.write_all(bytes)
}

/// Reads one frame; none where the stream has ended between two.
pub(super) fn receive(stream: &mut impl Read) -> io::Result<Option<Frame>> {
    let mut head = [0; 9];
    let mut filled = 0;
    while let Some(room @ [_, ..]) = head.get_mut(filled..) {
        match stream.read(room) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let [kind, a, b, c, d, e, f, g, h] = head;
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "a broken frame");
    let kind = Kind::of(kind).ok_or_else(broken)?;
    let id = u32::from_le_bytes([a, b, c, d]);
    let length = u32::from_le_bytes([e, f, g, h]) as usize;
    if length > MOST_BYTES {
        return Err(broken());
    }
    // Memory is taken as bytes arrive, not as many as somebody announces.
    let mut bytes = Vec::with_capacity(length.min(1 << 20));
    stream.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(Frame { kind, id, bytes }))
}

/// What the helper has to know of the view and the limits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setup {
    pub(super) view: View,
    pub(super) limits: ProcessLimits,
}

impl Setup {
    /// As a frame. Which paths are hidden or protected is outside's matter.
    pub(super) fn encode(view: &View, limits: &ProcessLimits) -> Vec<u8> {
        json!({
            "workspace": view.workspace,
            "read_only": view.read_only,
            "read_write": view.read_write,
            "env": view.env,
            "shell": view.shell,
            "limits": numbers::of_limits(*limits),
        })
        .to_string()
        .into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Setup> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let paths = |key: &str| -> Option<Vec<PathBuf>> {
            value[key].as_array()?.iter().map(|path| path.as_str().map(PathBuf::from)).collect()
        };
        let env = value["env"].as_object()?.iter();
        let env = env.map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        let limits: Option<Vec<u64>> = value["limits"].as_array()?.iter().map(Value::as_u64).collect();
        Some(Setup {
            view: View {
                workspace: value["workspace"].as_str()?.into(),
                read_only: paths("read_only")?,
                read_write: paths("read_write")?,
                hidden: Vec::new(),
                protected: Vec::new(),
                deny_read: Vec::new(),
                env: env.collect::<Option<BTreeMap<_, _>>>()?,
                network: Network::Off,
                system_calls: Vec::new(),
                explain: Explain::Rare,
                shell: value["shell"].as_str()?.into(),
            },
            limits: numbers::to_limits(limits?.try_into().ok()?),
        })
    }
}

/// What the helper finds inside.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ready {
    /// The workspace's device and number, by which it is known to be the one outside.
    pub(super) workspace: (u64, u64),
    /// Whether the helper's user can write there.
    pub(super) writes: bool,
}

impl Ready {
    pub(super) fn encode(found: &Result<Ready, ToolError>) -> Vec<u8> {
        let value = match found {
            Ok(ready) => json!({"workspace": [ready.workspace.0, ready.workspace.1], "writes": ready.writes}),
            Err(error) => json!({"error": WireError::from(error.clone())}),
        };
        value.to_string().into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Ready, ToolError> {
        let value: Value = serde_json::from_slice(bytes).map_err(|_| garbled())?;
        if let Some(error) = error_of(&value) {
            return Err(error);
        }
        let number = |at: usize| value["workspace"][at].as_u64().ok_or_else(garbled);
        Ok(Ready { workspace: (number(0)?, number(1)?), writes: value["writes"] == true })
    }
}

/// A job as a frame: the length of a header, the header, standard input.
pub(super) fn encode_job(job: &ShellJob, directory: &str) -> Vec<u8> {
    let (shell, words) = match &job.work {
        Work::Shell(text) => (Some(text), None),
        Work::Program(words) => (None, Some(words)),
    };
    let timeout = u64::try_from(job.timeout.as_millis()).unwrap_or(u64::MAX);
    let header =
        json!({"shell": shell, "words": words, "directory": directory, "timeout": timeout}).to_string();
    let mut bytes = Vec::with_capacity(8 + header.len() + job.stdin.len());
    bytes.extend_from_slice(&(header.len() as u64).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(&job.stdin);
    bytes
}

/// The inverse of [`encode_job`].
pub(super) fn decode_job(bytes: &[u8]) -> Option<ShellJob> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (header, stdin) = rest.split_at_checked(length)?;
    let header: Value = serde_json::from_slice(header).ok()?;
    let work = match header["shell"].as_str() {
        Some(text) => Work::Shell(text.to_owned()),
        None => {
            let words = header["words"].as_array()?.iter();
            Work::Program(words.map(|word| word.as_str().map(str::to_owned)).collect::<Option<_>>()?)
        }
    };
    Some(ShellJob {
        work,
        stdin: stdin.to_vec(),
        working_dir: Some(header["directory"].as_str()?.to_owned()),
        timeout: Duration::from_millis(header["timeout"].as_u64()?),
    })
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) exit: Exit,
    pub(super) limit: Option<LimitHit>,
    pub(super) left_running: u64,
}

impl Done {
    pub(super) fn encode(done: &Result<Done, ToolError>) -> Vec<u8> {
        let value = match done {
            Ok(done) => {
                let exit = match done.exit {
                    Exit::Code(code) => json!({"code": code}),
                    Exit::Signal(signal) => json!({"signal": signal}),
                    Exit::TimedOut => json!("timed_out"),
                    Exit::Cancelled => json!("cancelled"),
                };
                let limit = done.limit.map(|limit| match limit {
                    LimitHit::Memory(bound) => json!(["memory", bound]),
                    LimitHit::Processes(bound) => json!(["processes", bound]),
                    LimitHit::Cpu(bound) => json!(["cpu", bound]),
                    LimitHit::Disk(bound) => json!(["disk", bound]),
                    LimitHit::File(bound) => json!(["file", bound]),
                    LimitHit::Layer(bound) => json!(["layer", bound]),
                    LimitHit::SystemCall => json!(["system_call", 0]),
                });
                json!({"exit": exit, "limit": limit, "left_running": done.left_running})
            }
            Err(error) => json!({"error": WireError::from(error.clone())}),
        };
        value.to_string().into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Done, ToolError> {
        let value: Value = serde_json::from_slice(bytes).map_err(|_| garbled())?;
        if let Some(error) = error_of(&value) {
            return Err(error);
        }
        let number = |value: &Value| value.as_i64().and_then(|number| i32::try_from(number).ok());
        let exit = match &value["exit"] {
            Value::String(word) if word == "timed_out" => Exit::TimedOut,
            Value::String(word) if word == "cancelled" => Exit::Cancelled,
            exit => match (number(&exit["code"]), number(&exit["signal"])) {
                (Some(code), _) => Exit::Code(code),
                (None, Some(signal)) => Exit::Signal(signal),
                (None, None) => return Err(garbled()),
            },
        };
        let bound = value["limit"][1].as_u64().unwrap_or_default();
        let limit = match value["limit"][0].as_str() {
            Some("memory") => Some(LimitHit::Memory(bound)),
            Some("processes") => Some(LimitHit::Processes(bound)),
            Some("cpu") => Some(LimitHit::Cpu(bound)),
            Some("disk") => Some(LimitHit::Disk(bound)),
            Some("file") => Some(LimitHit::File(bound)),
            Some("layer") => Some(LimitHit::Layer(bound)),
            Some("system_call") => Some(LimitHit::SystemCall),
            _ => None,
        };
        Ok(Done { exit, limit, left_running: value["left_running"].as_u64().unwrap_or_default() })
    }
}

fn error_of(value: &Value) -> Option<ToolError> {
    let error: WireError = serde_json::from_value(value.get("error")?.clone()).ok()?;
    let mut error = ToolError::from(error);
    // It comes from a place where commands run.
    error.message = helve_core::harmless::harmless(&error.message);
    Some(error)
}

/// The error for an answer that is none.
pub(super) fn garbled() -> ToolError {
    ToolError::new(ErrorKind::Internal, "The helper inside the container said something that cannot be read.")
        .hint("Helve's program was perhaps replaced while it runs: start Helve anew.")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_said_comes_back_as_it_was() {
        let view = View {
            workspace: "/w".into(),
            read_only: vec!["/r".into()],
            read_write: vec!["/x".into(), "/y".into()],
            hidden: Vec::new(),
            protected: Vec::new(),
            deny_read: Vec::new(),
            env: BTreeMap::from([("A".to_owned(), "ä\n".to_owned())]),
            network: Network::Off,
            system_calls: Vec::new(),
            explain: Explain::Rare,
            shell: "/bin/sh".into(),
        };
        let limits = ProcessLimits {
            open_files: 1,
            file_bytes: 2,
            memory_bytes: 3,
            processes: 4,
            cpu_seconds: 5,
            disk_bytes: 6,
            tmp_bytes: 7,
        };
        assert_eq!(Setup::decode(&Setup::encode(&view, &limits)), Some(Setup { view, limits }));
        let ready = Ready { workspace: (u64::MAX, 2), writes: true };
        assert_eq!(
            Ready::decode(&Ready::encode(&Ok(Ready { ..ready }))),
            Ok(Ready { workspace: (u64::MAX, 2), writes: true })
        );
        let error = ToolError::not_found("gone").hint("look");
        assert_eq!(Ready::decode(&Ready::encode(&Err(error.clone()))), Err(error.clone()));
        for work in [Work::Shell("a\0b".to_owned()), Work::Program(vec!["x".to_owned(), String::new()])] {
            let stdin = vec![0, 255];
            let job =
                ShellJob { work, stdin, working_dir: Some("/w/d".into()), timeout: Duration::from_secs(3) };
            assert_eq!(decode_job(&encode_job(&job, "/w/d")), Some(job));
        }
        let limits = [
            LimitHit::Memory(1),
            LimitHit::Processes(2),
            LimitHit::Cpu(3),
            LimitHit::Disk(4),
            LimitHit::File(5),
            LimitHit::SystemCall,
        ];
        for limit in limits.map(Some).into_iter().chain([None]) {
            for exit in [Exit::Code(-1), Exit::Signal(9), Exit::TimedOut, Exit::Cancelled] {
                let done = Ok(Done { exit, limit, left_running: 3 });
                assert_eq!(Done::decode(&Done::encode(&done)), done);
            }
        }
        assert_eq!(Done::decode(&Done::encode(&Err(error.clone()))), Err(error));
        assert!(Done::decode(b"{}").is_err() && Done::decode(b"x").is_err());
    }

    proptest! {
        #[test]
        fn frames_come_back_and_no_bytes_break_the_reader(
            id: u32,
            content in prop::collection::vec(any::<u8>(), 0..6000),
            junk in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut bytes = Vec::new();
            send(&mut bytes, Kind::Files, id, &content).unwrap();
            let mut stream = bytes.as_slice();
            let frame = receive(&mut stream).unwrap();
            prop_assert_eq!(frame, Some(Frame { kind: Kind::Files, id, bytes: content }));
            prop_assert!(receive(&mut stream).unwrap().is_none());
            prop_assert!(receive(&mut &bytes[..bytes.len() - 1]).is_err());
            let _ = receive(&mut junk.as_slice());
            let _ = (Setup::decode(&junk), Ready::decode(&junk), decode_job(&junk), Done::decode(&junk));
        }
    }
}
