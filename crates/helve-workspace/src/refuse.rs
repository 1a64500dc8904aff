//! What the workspace says when it cannot or must not do something: what is wrong, and what to do instead.

use helve_core::{ErrorKind, ToolError, deny_read};
use rustix::io::Errno;

use crate::names::show;

/// Nothing is at a path.
pub(crate) fn missing(path: &str) -> ToolError {
    let error = ToolError::not_found(format!("'{}' does not exist.", show(path)));
    // So names are told that could be misread.
    if path.len() > 1 && path.starts_with('"') && path.ends_with('"') {
        return error.hint(
            "Listings quote a name with a line break or another character that cannot be seen. Give the name itself, without \
             the quotation marks and with the characters in place of their escapes: as JSON, \\n is a line break, and \\u001b \
             what is shown as \\x1b.",
        );
    }
    match path.contains("\\x") {
        // So names are told that are not UTF-8.
        true => error
            .hint("A name that is not UTF-8, and is shown with \\x…, cannot be opened here: use a command."),
        false => error,
    }
}

/// A path leads outside the workspace.
pub(crate) fn outside(path: &str) -> ToolError {
    ToolError::new(ErrorKind::Blocked, format!("'{}' leads outside the workspace.", show(path)))
        .hint("Use a path inside the workspace; where a link leads out, remove the link. The owner can open another directory with files.read_only or files.read_write.")
}

/// A path is one of those that no tool reads.
pub(crate) fn denied(path: &str) -> ToolError {
    deny_read::closed(&show(path))
}

/// A path is protected from writing.
pub(crate) fn protected(path: &str, name: &str) -> ToolError {
    let (path, name) = (show(path), show(name));
    let what = if path == name { String::new() } else { format!(" by its part '{name}'") };
    ToolError::new(
        ErrorKind::Blocked,
        format!("'{path}' is protected{what}: it may run or configure programs of the owner."),
    )
    .hint("Ask the owner to make this change.")
}

/// A path is part of what git takes for one of its own directories, and obeys.
pub(crate) fn git(path: &str, dir: &str) -> ToolError {
    let dir = if dir.is_empty() { "." } else { dir };
    let (path, dir) = (show(path), show(dir));
    let message = format!(
        "'{path}' is protected: '{dir}' is a directory of git then, whose configuration and hooks run programs of the owner."
    );
    ToolError::new(ErrorKind::Blocked, message).hint("Ask the owner to make this change.")
}

/// Nothing may be changed here.
pub(crate) fn read_only(path: &str) -> ToolError {
    ToolError::new(ErrorKind::Blocked, format!("'{}' is open for reading only.", show(path)))
        .hint("Only the owner can allow changes there.")
}

/// A change goes through a link that stays inside.
pub(crate) fn link(path: &str, target: &str) -> ToolError {
    let (path, target) = (show(path), show(target));
    ToolError::failed(format!(
        "'{path}' leads through a link to '{target}', and changes are not made through links."
    ))
    .hint(format!("Use the path '{target}'."))
}

/// A link goes round in circles, or through one of the kernel's own links.
pub(crate) fn circle(path: &str) -> ToolError {
    ToolError::new(
        ErrorKind::Blocked,
        format!("'{}' leads through too many links, or through one that cannot be followed.", show(path)),
    )
    .hint("Use the path of the file itself.")
}

/// The directory was meant as a file.
pub(crate) fn directory(path: &str) -> ToolError {
    let path = if path.is_empty() { "." } else { path };
    ToolError::failed(format!("'{}' is a directory, not a file.", show(path))).hint("List it with list_dir.")
}

/// The file was meant as a directory.
pub(crate) fn not_directory(path: &str) -> ToolError {
    ToolError::failed(format!("'{}' is a file, not a directory.", show(path))).hint("Read it with read_file.")
}

/// A device, a FIFO or a socket.
pub(crate) fn special(path: &str, what: &str) -> ToolError {
    ToolError::failed(format!("'{}' is {what}. Only regular files can be opened.", show(path)))
}

/// A file with several names.
pub(crate) fn hard_link(path: &str, count: u64) -> ToolError {
    ToolError::new(
        ErrorKind::Blocked,
        format!("'{}' has {count} names (hard links), and one of them may be outside the workspace.", show(path)),
    )
    .hint("Make a copy of it with a command and use that. The owner can allow such files with files.hard_links = \"allow\".")
}

/// A file is larger than asked for.
pub(crate) fn too_large(path: &str, len: u64, max: u64) -> ToolError {
    ToolError::new(
        ErrorKind::TooLarge,
        format!("'{}' has {len} bytes; at most {max} can be held at once.", show(path)),
    )
    .hint("Read it page by page with read_file, or look for what you need with grep.")
}

/// A file is so long that reading and keeping it would not end in time.
pub(crate) fn too_long(path: &str, len: u64, max: u64) -> ToolError {
    let message = format!(
        "'{}' has {len} bytes; file tools change files of at most {max}. Nothing was changed.",
        show(path)
    );
    ToolError::new(ErrorKind::TooLarge, message)
        .hint("Use another path, or change, truncate or remove it with a command.")
}

/// A name that Helve's own files have for a moment.
pub(crate) fn temporary(path: &str, name: &str) -> ToolError {
    let message =
        format!("'{}' cannot be written: Helve itself uses names like '{}'.", show(path), show(name));
    ToolError::failed(message).hint("Use another name.")
}

/// Something else changed a path at the same moment.
pub(crate) fn raced(path: &str) -> ToolError {
    ToolError::new(
        ErrorKind::Conflict,
        format!("'{}' was changed by something else at the same moment. Nothing was changed.", show(path)),
    )
    .hint("Read it again and repeat the change.")
}

/// The call was taken back before anything happened.
pub(crate) fn cancelled() -> ToolError {
    ToolError::new(ErrorKind::Cancelled, "The call was taken back before anything was changed.")
}

/// What the operating system refused; `doing` is such as `read` or `write`.
pub(crate) fn system(doing: &str, path: &str, error: Errno) -> ToolError {
    let path = if path.is_empty() { "." } else { path };
    let (why, hint) = match error {
        Errno::NOENT => return missing(path),
        Errno::ACCESS | Errno::PERM => {
            ("permission denied", "Use another path, or ask the owner to change its permissions.")
        }
        Errno::NOSPC => ("the disk is full", "Free some space, then repeat the call."),
        Errno::DQUOT => ("the disk quota is used up", "Free some space, then repeat the call."),
        Errno::ROFS => ("the file system is read-only", "Use another path."),
        Errno::NAMETOOLONG => ("a name in it is too long", "Use names of at most 255 bytes."),
        Errno::NOTDIR => ("a part of the path is a file, not a directory", "Check the path with list_dir."),
        Errno::MFILE | Errno::NFILE => {
            ("too many files are open", "Repeat the call, or split it into smaller ones.")
        }
        Errno::FBIG => ("the file would be larger than is allowed", "Write less."),
        Errno::BUSY | Errno::TXTBSY => ("it is in use", "Repeat the call later."),
        Errno::IO => ("the disk reports an error", "Tell the owner; the disk may be damaged."),
        error => {
            return ToolError::failed(format!("Cannot {doing} '{}': {error}.", show(path)));
        }
    };
    ToolError::failed(format!("Cannot {doing} '{}': {why}.", show(path))).hint(hint)
}
