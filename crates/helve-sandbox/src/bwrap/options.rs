//! The plan of mounts as options of bwrap.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::path::Path;

use helve_core::ToolError;

use crate::plan::{Mount, Plan};

/// bwrap's options on their way to it.
#[derive(Default)]
pub(crate) struct Options(pub(crate) Vec<u8>);

impl Options {
    pub(crate) fn add<'a, T: AsRef<OsStr> + ?Sized + 'a>(&mut self, words: impl IntoIterator<Item = &'a T>) {
        for word in words {
            self.0.extend_from_slice(word.as_ref().as_encoded_bytes());
            self.0.push(0);
        }
    }
}

/// What a new file holds.
pub(crate) enum Content<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// What the file outside holds.
    Of(&'a Path),
}

/// Writes the options. `file` makes a descriptor from which bwrap reads a file's content.
pub(crate) fn write(
    plan: &Plan,
    options: &mut Options,
    mut file: impl FnMut(Content<'_>) -> Result<RawFd, ToolError>,
) -> Result<(), ToolError> {
    let mut number = |content: Content<'_>| file(content).map(|fd| OsString::from(fd.to_string()));
    for (path, mount) in plan.mounts() {
        let place = path.as_os_str();
        let option = OsStr::new(match mount {
            Mount::ReadOnly => "--ro-bind",
            Mount::ReadWrite => "--bind",
            Mount::Private | Mount::HiddenDirectory => "--tmpfs",
            Mount::Proc => "--proc",
            Mount::Devices => "--dev",
            Mount::Link(_) => "--symlink",
            Mount::File(_) | Mount::Copy => "--file",
            Mount::HiddenFile => "--ro-bind-data",
        });
        match mount {
            Mount::ReadOnly | Mount::ReadWrite => options.add([option, place, place]),
            Mount::Private | Mount::HiddenDirectory | Mount::Proc | Mount::Devices => {
                options.add([option, place])
            }
            Mount::Link(target) => options.add([option, target.as_os_str(), place]),
            Mount::File(content) => options.add([option, number(Content::Bytes(content))?.as_ref(), place]),
            Mount::HiddenFile => options.add([option, number(Content::Bytes(b""))?.as_ref(), place]),
            Mount::Copy => options.add([option, number(Content::Of(path))?.as_ref(), place]),
        }
    }
    // Switches of the whole machine in /proc/sys belong to the outer root, whom an inner one without any
    // capability still counts as. bwrap leaves them writable.
    let sealed = |mount: &Mount| matches!(mount, Mount::HiddenDirectory | Mount::Proc);
    let sealed = plan.mounts().filter(|(_, mount)| sealed(mount));
    for place in sealed.map(|(path, _)| path.as_os_str()).chain([OsStr::new("/")]) {
        options.add([OsStr::new("--remount-ro"), place]);
    }
    Ok(())
}
