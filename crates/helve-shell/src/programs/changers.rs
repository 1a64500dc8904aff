//! Programs that change files, machines and networks.
//!
//! In comes an argv, out goes which of its arguments are written, deleted or contacted. One module a trade; each has the
//! option grammars of its programs. What a path is (a raw device, a start file, a credential) is not known here: only
//! which argument is one.
//!
//! | module | what |
//! |---|---|
//! | `files`, `edits`, `modes`, `archives` | deleting, moving, copying, changing, packing; modes and owners |
//! | `disks`, `power`, `accounts` | the machine: formatting, stopping, killing, who may do what, what runs by itself |
//! | `network`, `packages`, `databases` | talking to other machines |
//! | `windows` | the commands of Windows, in any shell |
//! | `code` | code in other languages |

mod accounts;
mod archives;
pub(crate) mod code;
mod databases;
mod disks;
mod edits;
mod files;
pub(crate) mod hosts;
mod modes;
mod network;
mod packages;
mod power;
mod reading;
#[cfg(test)]
mod tests;
mod windows;

use std::borrow::Cow;

use super::{Deed, Inner, Invocation, Meaning, On};
use crate::analysis::Arg;

/// What the argv means, if this table knows the program.
pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    // Some file systems do not tell `RM` from `rm`.
    let mut program = Cow::Borrowed(invocation.program);
    if program.bytes().any(|byte| byte.is_ascii_uppercase()) {
        program.to_mut().make_ascii_lowercase();
    }
    let tables = [
        windows::understand,
        files::understand,
        edits::understand,
        modes::understand,
        archives::understand,
        disks::understand,
        power::understand,
        accounts::understand,
        network::understand,
        packages::understand,
        databases::understand,
    ];
    tables.iter().find_map(|table| table(&program, invocation))
}

/// Text that a program gives to `sh`.
fn shell_inner(text: Option<Arg>) -> Option<Inner> {
    let shell = "sh".to_owned();
    text.map(|text| Inner::Shell { text, shell, parameters: Vec::new(), elsewhere: false })
}
