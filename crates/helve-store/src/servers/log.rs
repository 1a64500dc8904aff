//! What happened to a server: starts, ends, failures, and what it wrote to standard error. Bounded: the older half goes
//! when a new half is full.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::{alone, check, find_server, make_server, read};
use crate::{Home, StoreError, files};

const FILE: &str = "log.jsonl";
const OLD: &str = "log.old.jsonl";
/// The longest text of one line.
const MAX_TEXT: usize = 8 << 10;

/// Something that happened to a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerEvent {
    /// When, in microseconds since 1970 UTC.
    pub at_us: u64,
    /// What: `stderr`, or the word for an event such as `started`.
    pub kind: String,
    /// More about it.
    pub text: String,
}

/// The logs of the servers of one state directory.
#[derive(Debug, Clone)]
pub struct ServerLogs {
    home: Home,
    most: u64,
}

impl ServerLogs {
    /// The logs of this state directory, of each server at most `most` bytes. Opens nothing yet.
    pub fn new(home: &Home, most: u64) -> ServerLogs {
        ServerLogs { home: home.clone(), most }
    }

    /// Notes what happened to a server. A text that is too long is cut.
    pub fn note(&self, server: &str, kind: &str, text: &str) -> Result<(), StoreError> {
        check(server)?;
        let mut text = text.to_owned();
        if text.len() > MAX_TEXT {
            text.truncate(text.floor_char_boundary(MAX_TEXT));
            text.push('…');
        }
        let event = ServerEvent { at_us: files::microseconds(files::now()), kind: kind.to_owned(), text };
        let mut line = serde_json::to_vec(&event).map_err(|error| StoreError::NotJson(error.to_string()))?;
        line.push(b'\n');
        let dir = make_server(&self.home, server).map_err(|error| failed(server, error))?;
        alone(&dir, || self.append(&dir, &line).map_err(|error| failed(server, error)))
    }

    fn append(&self, dir: &OwnedFd, line: &[u8]) -> io::Result<()> {
        let mut file = files::open_or_make(dir, FILE, OFlags::WRONLY | OFlags::APPEND)?;
        if file.metadata()?.len() + line.len() as u64 > self.most / 2 {
            rustix::fs::renameat(dir, FILE, dir, OLD)?;
            file = files::open_or_make(dir, FILE, OFlags::WRONLY | OFlags::APPEND)?;
        }
        file.write_all(line)
    }

    /// What is known, the oldest first; a line that makes no sense is left out.
    pub fn of(&self, server: &str) -> Result<Vec<ServerEvent>, StoreError> {
        check(server)?;
        let load = || -> io::Result<Vec<ServerEvent>> {
            let mut events = Vec::new();
            let Some(dir) = find_server(&self.home, server)? else { return Ok(events) };
            for name in [OLD, FILE] {
                // Another limit may have held when it was written.
                let bytes = read(&dir, name, 1 << 30)?.unwrap_or_default();
                let lines = bytes.split(|byte| *byte == b'\n');
                events.extend(lines.filter_map(|line| serde_json::from_slice::<ServerEvent>(line).ok()));
            }
            Ok(events)
        };
        load().map_err(|error| failed(server, error))
    }

    /// Removes the log of a server.
    pub fn forget(&self, server: &str) -> Result<(), StoreError> {
        check(server)?;
        let Some(dir) = find_server(&self.home, server).map_err(|error| failed(server, error))? else {
            return Ok(());
        };
        alone(&dir, || {
            let remove = |name| files::remove_file(&dir, name).map_err(|error| failed(server, error));
            remove(FILE)?;
            remove(OLD)
        })
    }
}

fn failed(server: &str, error: io::Error) -> StoreError {
    StoreError::io("cannot read or write the log of an MCP server", server, error)
}
