//! Reading a file that the owner names, without ever waiting for one that nobody writes.
//!
//! In comes a path and the largest size, out goes text. Only regular files are read, and the null device, which is a
//! usual name for an empty file: a pipe or a device could hold up every call for ever.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, Read as _, Result};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// The text of a regular file of at most `most` bytes.
pub(crate) fn read(path: &Path, most: u64) -> Result<String> {
    // Looked at before it is opened, because to open a device may set it in motion; and again behind, because another
    // file may have come in its place.
    check(&std::fs::metadata(path)?)?;
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    check(&file.metadata()?)?;
    bounded(file, most)
}

/// The same for a file that the caller may have opened for Helve to read: standard input, or a shell's `<(command)`.
pub(crate) fn read_or_receive(path: &Path, most: u64) -> Result<String> {
    if path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") {
        return bounded(File::open(path)?, most);
    }
    read(path, most)
}

fn check(metadata: &Metadata) -> Result<()> {
    let null = || rustix::fs::makedev(1, 3);
    let kind = metadata.file_type();
    if kind.is_file() || kind.is_char_device() && metadata.rdev() == null() {
        return Ok(());
    }
    Err(Error::other("it is not a regular file; name one that is"))
}

fn bounded(file: File, most: u64) -> Result<String> {
    let mut text = String::new();
    file.take(most.saturating_add(1)).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(Error::other(format!("it is larger than {most} bytes; make it smaller")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_and_the_null_device_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        for path in [pipe.as_path(), directory.path(), Path::new("/dev/zero")] {
            for read in [read, read_or_receive] {
                let error = read(path, 10).unwrap_err().to_string();
                assert!(error.contains("not a regular file"), "{}: {error}", path.display());
            }
        }
        assert_eq!(read(Path::new("/dev/null"), 10).unwrap(), "");
    }

    #[test]
    fn the_size_is_bounded() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "12345").unwrap();
        assert_eq!(read(file.path(), 5).unwrap(), "12345");
        assert!(read(file.path(), 4).unwrap_err().to_string().contains("larger than 4 bytes"));
    }
}
