//! Which call has the newest record there ever was, in `undo/newest`. Records are taken in the order of their calls' ids, which
//! begin with the time; who makes ids asks here, so that none sorts before an earlier one when the clock went back.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::UNDO;
use crate::files;

const NEWEST: &str = "newest";
/// No id of a call is longer.
const MAX_BYTES: usize = 128;

/// The newest call that has, or had, an undo record in a state directory.
pub fn newest_undo(home: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(home.join(UNDO), flags, Mode::empty()).ok()?;
    let file = files::open_to_read(&dir, NEWEST).ok()??;
    read(&file).ok()
}

/// A call is about to get a record.
pub(super) fn note(dir: &OwnedFd, call: &str) -> io::Result<()> {
    let file = files::open_or_make(dir, NEWEST, OFlags::RDWR)?;
    // A number of another process may be written over by one that is smaller by a moment, which makes no difference.
    if read(&file)?.as_str() < call {
        file.write_all_at(call.as_bytes(), 0)?;
    }
    Ok(())
}

fn read(file: &std::fs::File) -> io::Result<String> {
    let mut text = [0; MAX_BYTES];
    let length = file.read_at(&mut text, 0)?;
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}
