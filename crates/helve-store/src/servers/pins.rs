//! The definitions of tools that the owner agreed to, by server.

use std::io;
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{alone, check, find, find_server, make_server, read, replace};
use crate::{Home, StoreError, files};

const FILE: &str = "pins.jsonl";
/// More than this is not read, and not written.
const MAX_BYTES: u64 = 64 << 20;

/// A definition that counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The tool, by the server's own name for it.
    pub tool: String,
    /// The hash of the definition.
    pub hash: String,
    /// The definition itself, so that a change can be shown.
    pub definition: Value,
    /// When it was agreed to, in microseconds since 1970 UTC.
    pub pinned_at_us: u64,
}

/// A definition that is to count from now on.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPin {
    /// The tool, by the server's own name for it.
    pub tool: String,
    /// The hash of the definition.
    pub hash: String,
    /// The definition itself.
    pub definition: Value,
}

/// The pins of one state directory.
#[derive(Debug, Clone)]
pub struct Pins {
    home: Home,
}

impl Pins {
    /// The pins of this state directory. Opens nothing yet.
    pub fn new(home: &Home) -> Pins {
        Pins { home: home.clone() }
    }

    /// The pins of a server, in the order of the tools; none where it was never seen.
    pub fn of(&self, server: &str) -> Result<Option<Vec<Pin>>, StoreError> {
        check(server)?;
        let dir = find_server(&self.home, server).map_err(|error| failed(server, error))?;
        dir.map_or(Ok(None), |dir| load(&dir, server))
    }

    /// Agrees to definitions: each is added or replaces the one that its tool had. Other tools keep theirs. With none, the
    /// server counts as seen.
    pub fn pin(&self, server: &str, new: Vec<NewPin>) -> Result<(), StoreError> {
        check(server)?;
        let dir = make_server(&self.home, server).map_err(|error| failed(server, error))?;
        let pinned_at_us = files::microseconds(files::now());
        alone(&dir, || {
            let mut pins = load(&dir, server)?.unwrap_or_default();
            let is_new = |pin: &Pin| new.iter().any(|new| new.tool == pin.tool);
            pins.retain(|pin| !is_new(pin));
            pins.extend(new.iter().map(|new| Pin {
                tool: new.tool.clone(),
                hash: new.hash.clone(),
                definition: new.definition.clone(),
                pinned_at_us,
            }));
            pins.sort_by(|a, b| a.tool.cmp(&b.tool));
            store(&dir, server, &pins)
        })
    }

    /// Takes back what was agreed to about one tool; false where nothing was.
    pub fn unpin(&self, server: &str, tool: &str) -> Result<bool, StoreError> {
        check(server)?;
        let Some(dir) = find_server(&self.home, server).map_err(|error| failed(server, error))? else {
            return Ok(false);
        };
        alone(&dir, || {
            let mut pins = load(&dir, server)?.unwrap_or_default();
            let before = pins.len();
            pins.retain(|pin| pin.tool != tool);
            if pins.len() == before {
                return Ok(false);
            }
            store(&dir, server, &pins).map(|()| true)
        })
    }

    /// Forgets a server: the next start is the first. False where it was never seen. A file that cannot be read is
    /// removed as well: this is the way out of it.
    pub fn forget(&self, server: &str) -> Result<bool, StoreError> {
        check(server)?;
        let Some(dir) = find_server(&self.home, server).map_err(|error| failed(server, error))? else {
            return Ok(false);
        };
        alone(&dir, || {
            let was = files::stat(&dir, FILE).map_err(|error| failed(server, error))?.is_some();
            files::remove_file(&dir, FILE).map_err(|error| failed(server, error))?;
            Ok(was)
        })
    }

    /// The servers that have pins, sorted.
    pub fn servers(&self) -> Result<Vec<String>, StoreError> {
        let list = || -> io::Result<Vec<String>> {
            let Some(dir) = find(&self.home)? else { return Ok(Vec::new()) };
            let mut names = files::names(&dir)?;
            names.retain(|name| check(name).is_ok());
            let mut found = Vec::new();
            for name in names {
                if let Some(server) = files::open_dir(&dir, &name).ok().flatten()
                    && files::stat(&server, FILE)?.is_some()
                {
                    found.push(name);
                }
            }
            found.sort_unstable();
            Ok(found)
        };
        list().map_err(|error| failed(super::DIR, error))
    }
}

fn load(dir: &OwnedFd, server: &str) -> Result<Option<Vec<Pin>>, StoreError> {
    let unreadable = |reason: String| StoreError::Pins { server: server.to_owned(), reason };
    let Some(bytes) = read(dir, FILE, MAX_BYTES).map_err(|error| unreadable(error.to_string()))? else {
        return Ok(None);
    };
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let pins = lines.map(|line| serde_json::from_slice(line).map_err(|error| unreadable(error.to_string())));
    pins.collect::<Result<Vec<Pin>, _>>().map(Some)
}

fn store(dir: &OwnedFd, server: &str, pins: &[Pin]) -> Result<(), StoreError> {
    let mut text = Vec::new();
    for pin in pins {
        serde_json::to_writer(&mut text, pin).map_err(|error| StoreError::NotJson(error.to_string()))?;
        text.push(b'\n');
    }
    if text.len() as u64 > MAX_BYTES {
        let limit = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX);
        return Err(StoreError::TooLarge { bytes: text.len(), limit });
    }
    replace(dir, FILE, &text).map_err(|error| failed(server, error))
}

fn failed(server: &str, error: io::Error) -> StoreError {
    StoreError::io("cannot read or write the pins of an MCP server", server, error)
}
