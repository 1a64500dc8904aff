//! Which directories git takes for repositories.
//!
//! One counts by what is in it: a `HEAD` that names a branch or a commit, and `objects` and `refs`, which may stand in
//! another directory that `commondir` names. Git passes by a `.git` that has not all of them and looks for the repository
//! further up.

use std::path::Path;

use super::{Content, is_absent, read};

/// How much of a `HEAD` git looks at, in bytes.
const MAX_HEAD: u64 = 255;

/// The hexadecimal digits of the shortest name of a commit.
const DIGITS: usize = 40;

/// Whether git takes a directory for a repository for certain. A `HEAD` that is a link, and one that is longer than what
/// git reads of it, may count for git, too, but not here.
pub(super) fn is_certain(git: &Path) -> bool {
    // What stands behind the last slash is found only where the directory may be searched.
    let is_entered =
        |name: &str| git.join(name).join(".").symlink_metadata().is_ok_and(|found| found.is_dir());
    let Content::Bytes(head) = read(&git.join("HEAD"), MAX_HEAD) else { return false };
    (names_branch(&head) || names_commit(&head)) && is_entered("objects") && is_entered("refs")
}

/// Whether git may take a directory of any name for a repository.
pub(super) fn is_possible(directory: &Path) -> bool {
    let has = |name: &str| !is_absent(&directory.join(name));
    has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

fn names_branch(head: &[u8]) -> bool {
    // A form feed is no blank for git.
    let is_blank = |byte: &u8| b" \t\r\n".contains(byte);
    head.strip_prefix(b"ref:").is_some_and(|name| {
        let blanks = name.iter().take_while(|byte| is_blank(byte)).count();
        name.get(blanks..).is_some_and(|name| name.starts_with(b"refs/"))
    })
}

fn names_commit(head: &[u8]) -> bool {
    head.get(..DIGITS).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}
