//! Small changes that wait, in one file: making a file for each would take longer than all the rest of a small preview.
//!
//! ```text
//! undo/pending/waiting   {"holds":{"record":…,"contents":{"b3:…":"base64"}}}
//!                        {"released":"<call>"}
//! ```
//!
//! Each line is appended in one piece, after a line feed of its own: what a killed process left unfinished spoils no other
//! line and is passed over. Whoever writes holds a lock on the file. When nothing waits any more the file is emptied, and when
//! most of it is over it is written anew. It is bounded; what does not fit has a file of its own, as large changes have.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::UndoRecord;
use crate::files::{self, Lock};

const NAME: &str = "waiting";
const ANEW: &str = ".waiting";
/// What is longer has a file of its own.
const LINE_BYTES: usize = 64 << 10;
/// The file is no longer than this.
const MOST_BYTES: u64 = 1 << 20;

/// Contents of files by their ids.
pub type SmallContents = BTreeMap<String, Vec<u8>>;

/// Changes that wait, as they are read.
pub(super) struct Waits {
    pub(super) record: UndoRecord,
    /// In base64.
    contents: BTreeMap<String, String>,
    /// As it stands in the file.
    line: Vec<u8>,
}

impl Waits {
    /// How much of the file it takes.
    pub(super) fn bytes(&self) -> u64 {
        // With the line feeds around it.
        self.line.len() as u64 + 2
    }

    /// The new contents; one that is no base64 is none.
    pub(super) fn contents(&self) -> impl Iterator<Item = Vec<u8>> {
        self.contents.values().filter_map(|text| BASE64_STANDARD_NO_PAD.decode(text).ok())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Holds { record: UndoRecord, contents: BTreeMap<String, String> },
    Released(String),
}

/// [`Line`] to be written.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Written<'a> {
    Holds { record: &'a UndoRecord, contents: BTreeMap<&'a str, String> },
    Released(&'a str),
}

fn line(written: &Written<'_>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![b'\n'];
    serde_json::to_writer(&mut bytes, written)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Appends changes. Whether they are small enough for that.
pub(super) fn hold(dir: &OwnedFd, record: &UndoRecord, contents: &SmallContents) -> io::Result<bool> {
    let text = contents.iter().map(|(id, bytes)| (id.as_str(), BASE64_STANDARD_NO_PAD.encode(bytes)));
    let line = line(&Written::Holds { record, contents: text.collect() })?;
    if line.len() > LINE_BYTES {
        return Ok(false);
    }
    locked(dir, |file| {
        let long = file.metadata()?.len();
        if long.saturating_add(line.len() as u64) > MOST_BYTES {
            return Ok(false);
        }
        append(file, long, &line)?;
        Ok(true)
    })
}

/// All that wait, in the order in which they were held.
pub(super) fn read(dir: &OwnedFd) -> io::Result<Vec<Waits>> {
    match files::open_to_read(dir, NAME)? {
        // Nobody has to wait: a line that is being written is passed over.
        Some(file) => Ok(waiting(&bytes_of(&file)?)),
        None => Ok(Vec::new()),
    }
}

/// Those of one call.
pub(super) fn of_call(dir: &OwnedFd, call: &str) -> io::Result<Option<Waits>> {
    Ok(read(dir)?.into_iter().find(|waits| waits.record.call == call))
}

/// Those of a call wait no longer. Whether they did.
pub(super) fn release(dir: &OwnedFd, call: &str) -> io::Result<bool> {
    if files::stat(dir, NAME)?.is_none() {
        return Ok(false);
    }
    locked(dir, |file| {
        let text = bytes_of(file)?;
        let all = waiting(&text);
        let left: Vec<&Waits> = all.iter().filter(|waits| waits.record.call != call).collect();
        if left.len() == all.len() {
            return Ok(false);
        }
        let needed: u64 = left.iter().map(|waits| waits.bytes()).sum();
        let long = text.len() as u64;
        if left.is_empty() {
            file.set_len(0)?;
        } else if needed < long / 2 && long > MOST_BYTES / 2 {
            write_anew(dir, &left)?;
        } else {
            append(file, long, &line(&Written::Released(call))?)?;
        }
        Ok(true)
    })
}

/// Whoever has the lock has it on the file that has the name.
fn locked<T>(dir: &OwnedFd, act: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
    loop {
        let file = files::open_or_make(dir, NAME, OFlags::RDWR | OFlags::APPEND)?;
        let _lock = Lock::exclusive(&file)?;
        let (own, named) = (rustix::fs::fstat(&file)?, files::stat(dir, NAME)?);
        // It was written anew meanwhile.
        if named.is_some_and(|named| (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)) {
            return act(&file);
        }
    }
}

/// Appends a line, or nothing of it.
fn append(mut file: &File, long: u64, line: &[u8]) -> io::Result<()> {
    let written = file.write_all(line);
    if written.is_err() {
        file.set_len(long)?;
    }
    written
}

/// Writes what still waits into a new file, which takes the place of the old.
fn write_anew(dir: &OwnedFd, left: &[&Waits]) -> io::Result<()> {
    files::remove_file(dir, ANEW)?;
    let mut bytes = Vec::new();
    for waits in left {
        bytes.push(b'\n');
        bytes.extend_from_slice(&waits.line);
        bytes.push(b'\n');
    }
    files::make_new(dir, ANEW)?.write_all(&bytes)?;
    Ok(rustix::fs::renameat(dir, ANEW, dir, NAME)?)
}

/// What a text says to wait. A line that is none is passed over.
fn waiting(text: &[u8]) -> Vec<Waits> {
    let mut all: Vec<Waits> = Vec::new();
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let Ok(read) = serde_json::from_slice::<Line>(line) else { continue };
        let call = match &read {
            Line::Holds { record, .. } => &record.call,
            Line::Released(call) => call,
        };
        all.retain(|waits| waits.record.call != *call);
        if let Line::Holds { record, contents } = read {
            all.push(Waits { record, contents, line: line.to_vec() });
        }
    }
    all
}

fn bytes_of(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES.saturating_mul(2)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
