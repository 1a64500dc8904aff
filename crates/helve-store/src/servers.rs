//! What is remembered about MCP servers: the definitions that the owner agreed to, tokens, and what happened.
//!
//! ```text
//! $HELVE_HOME/mcp/
//!   tokens.json             tokens by their key, for the owner alone
//!   .lock                   held while something of this directory is replaced; the same in that of a server
//!   <server>/pins.jsonl     the definitions of its tools that count, one a line
//!   <server>/log.jsonl      starts, ends, failures and standard error, the newest last; log.old.jsonl before it
//! ```
//!
//! Files are replaced as a whole under a lock, so that a reader sees the one or the other whatever happens to the writer;
//! only the log is appended to. A file of pins or tokens that cannot be read is an error: taken for an empty one it would
//! let every changed definition through.
//!
//! **Not here:** what a definition is and how it is hashed, and the protocol (`helve-mcp`).

mod log;
mod pins;
mod tokens;

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, OFlags};

pub use log::{ServerEvent, ServerLogs};
pub use pins::{NewPin, Pin, Pins};
pub use tokens::Tokens;

use crate::files::{self, Lock};
use crate::{Home, StoreError};

const DIR: &str = "mcp";
/// A name that no server can have. An older Helve has its lock under one that a server can have.
const LOCK: &str = ".lock";
const OLD_LOCK: &str = "lock";

/// The directory of all servers; none where nothing was ever kept.
fn find(home: &Home) -> io::Result<Option<OwnedFd>> {
    files::open_dir(home.dir(), DIR)
}

/// The directory of one server; none where nothing was ever kept of it.
fn find_server(home: &Home, server: &str) -> io::Result<Option<OwnedFd>> {
    match find(home)? {
        Some(all) => {
            clear(&all, server)?;
            files::open_dir(all, server)
        }
        None => Ok(None),
    }
}

/// The directory of one server, made where it is missing.
fn make_server(home: &Home, server: &str) -> io::Result<OwnedFd> {
    let all = files::make_dir(home.dir(), DIR)?;
    clear(&all, server)?;
    files::make_dir(all, server)
}

/// Takes the lock of an older Helve out of a server's way.
fn clear(all: &OwnedFd, server: &str) -> io::Result<()> {
    let is_file = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode).is_file();
    if server == OLD_LOCK && files::stat(all, server)?.is_some_and(is_file) {
        files::remove_file(all, server)?;
    }
    Ok(())
}

/// A server's name is the name of its directory.
fn check(server: &str) -> Result<(), StoreError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if (1..=64).contains(&server.len()) && server.bytes().all(plain) {
        return Ok(());
    }
    Err(StoreError::BadServer(server.chars().take(80).collect()))
}

/// The bytes of a file, at most `most`; none where there is no such file.
fn read(dir: &OwnedFd, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = files::open_to_read(dir, name)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes")));
    }
    Ok(Some(bytes))
}

/// Puts a file in the place of another: readers see the one or the other.
fn replace(dir: &OwnedFd, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = format!("{name}.new");
    files::remove_file(dir, &new)?;
    let mut file = files::make_new(dir, &new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    rustix::fs::renameat(dir, &new, dir, name)?;
    Ok(())
}

/// Does `work` while nobody else changes what is in `dir`.
fn alone<T>(dir: &OwnedFd, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let failed = |error| StoreError::io("cannot lock what is kept of MCP servers", LOCK, error);
    // A file of its own, because the lock of a file that is replaced would guard nothing.
    let lock = files::open_or_make(dir, LOCK, OFlags::RDWR).map_err(failed)?;
    let _held = Lock::exclusive(&lock).map_err(failed)?;
    work()
}

#[cfg(test)]
mod tests;
