//! What the owner agrees to, and a file of the owner's that a command changes: shown first, kept as a backup, replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::failure::Failure;
use crate::harmless::harmless;
use crate::{approve, ui};

/// The largest file that is changed.
const MAX_BYTES: u64 = 64 << 20;

/// A change of one file.
pub(super) struct Change {
    /// Where it really is: what is shown is what is written.
    pub(super) path: PathBuf,
    pub(super) before: Option<String>,
    pub(super) after: String,
}

/// Whether the owner still has to be asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Consent {
    /// On the terminal.
    Ask,
    /// Given on the command line.
    Given,
}

impl Consent {
    pub(super) fn of(yes: bool) -> Consent {
        if yes { Consent::Given } else { Consent::Ask }
    }

    /// There is a way to get it; asked before anything is done.
    pub(super) fn can_be_had(self) -> Result<(), Failure> {
        if self == Consent::Given || approve::is_somebody_there() {
            return Ok(());
        }
        Err(Failure::usage("nobody is at a terminal to agree to it: look at what is shown, then add --yes"))
    }

    /// Shows what is to be agreed to, which carries styles: on standard output, or on the other where that is a program's. To who
    /// has agreed already nothing has to be shown, so that it is done whoever reads on.
    pub(super) fn show(self, json: bool, text: &str) -> Result<(), Failure> {
        match (self, json) {
            (Consent::Given, true) => return Ok(()),
            (Consent::Ask, true) => {
                ui::tell(text);
                return Ok(());
            }
            (_, false) => {}
        }
        match (ui::heard::print_styled(text), self) {
            (Err(Failure::ReaderGone), Consent::Given) => Ok(()),
            (Err(Failure::ReaderGone), Consent::Ask) => {
                Err(Failure::usage("nobody reads what is to be agreed to; nothing is done"))
            }
            (shown, _) => shown,
        }
    }

    /// Asks, where that is needed.
    pub(super) fn is_given(self, question: &str) -> bool {
        self == Consent::Given || approve::confirm(&format!("{} [y/N] ", harmless(question)))
    }
}

/// The text of a file; none where there is none. Something else than a regular file of text is an error.
pub(super) fn read(path: &Path) -> Result<Option<String>, Failure> {
    let wrong = |error: io::Error| Failure::usage(format!("{} cannot be read: {error}", path.display()));
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(wrong)?,
    };
    if !file.metadata().map_err(wrong)?.is_file() {
        return Err(wrong(io::Error::other("it is not a regular file")));
    }
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(wrong(io::Error::other(format!("it is larger than {MAX_BYTES} bytes"))));
    }
    Ok(Some(text))
}

/// Where a file really is, or would be: a link stays a link, and what it leads to is changed.
pub(super) fn real(path: &Path) -> Result<PathBuf, Failure> {
    let wrong = |why: String| Failure::usage(format!("{} cannot be written: {why}", path.display()));
    for there in path.ancestors().filter(|there| !there.as_os_str().is_empty()) {
        match fs::canonicalize(there) {
            // With nothing left to join, a separator at the end would ask for a directory.
            Ok(real) if there == path => return Ok(real),
            Ok(real) => return Ok(real.join(path.strip_prefix(there).unwrap_or(path))),
            Err(_) if fs::symlink_metadata(there).is_ok_and(|found| found.is_symlink()) => {
                let target = fs::read_link(there).map_err(|error| wrong(error.to_string()))?;
                let what = if there == path { "it".to_owned() } else { there.display().to_string() };
                return Err(wrong(format!(
                    "{what} is a link to {}, where nothing is; make it, or remove the link",
                    target.display()
                )));
            }
            Err(_) => {}
        }
    }
    // A bare name lies in the directory that Helve was started in.
    let here = std::env::current_dir().map_err(|error| wrong(error.to_string()))?;
    Ok(here.join(path))
}

impl Change {
    /// A change of the file that is [really](real) there to this text. Lines end as they do in the file, and a mark at its beginning stays.
    pub(super) fn new(path: PathBuf, before: Option<String>, after: String) -> Change {
        const MARK: char = '\u{feff}';
        let was = before.as_deref().unwrap_or_default();
        let mut after = after;
        if was.contains("\r\n") && was.matches('\n').count() == was.matches("\r\n").count() {
            after = after.replace("\r\n", "\n").replace('\n', "\r\n");
        }
        if was.starts_with(MARK) && !after.starts_with(MARK) {
            after.insert(0, MARK);
        }
        Change { path, before, after }
    }

    /// Whether there is anything to change.
    pub(super) fn is_needed(&self) -> bool {
        self.before.as_ref() != Some(&self.after)
    }

    /// What changes, as a unified diff; none where that would be too much.
    pub(super) fn diff(&self) -> Option<String> {
        let name = self.path.display().to_string();
        let before = self.before.as_deref().unwrap_or_default();
        helve::unified_diff(name.trim_start_matches('/'), before.as_bytes(), self.after.as_bytes())
    }

    /// Writes it. Gives the backup of what was there.
    pub(super) fn write(&self, mode: u32) -> Result<Option<PathBuf>, Failure> {
        self.replace(mode)
            .map_err(|error| Failure::usage(format!("{} cannot be written: {error}", self.path.display())))
    }

    fn replace(&self, mode: u32) -> io::Result<Option<PathBuf>> {
        let path = self.path.as_path();
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::other("it has no name"));
        };
        fs::create_dir_all(dir)?;
        let now = read(path).map_err(|failure| io::Error::other(failure.message()))?;
        // A link that came meanwhile leads elsewhere than what was shown.
        let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
        if now != self.before || is_link || fs::canonicalize(dir)? != dir {
            return Err(io::Error::other("it has changed meanwhile; try again"));
        }
        let mode = fs::metadata(path).map_or(mode, |metadata| metadata.mode() & 0o777);
        let backup = match &self.before {
            Some(before) => Some(backup(path, before, mode)?),
            None => None,
        };
        let new = dir.join(format!(".{}.helve-{}", name.to_string_lossy(), std::process::id()));
        let written = put(&new, &self.after, mode).and_then(|()| fs::rename(&new, path));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written.map(|()| backup)
    }
}

/// Makes a new file; one that is there is left alone.
fn put(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(mode).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Keeps what was there under the next free name.
fn backup(path: &Path, text: &str, mode: u32) -> io::Result<PathBuf> {
    let mut last = io::Error::other("there are too many backups");
    for number in 0..1000 {
        let end = if number == 0 { ".bak".to_owned() } else { format!(".bak.{number}") };
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        match put(name.as_ref(), text, mode) {
            Ok(()) => return Ok(name.into()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Says what became of a file.
pub(super) fn say_written(path: &Path, backup: Option<&PathBuf>) {
    let kept = backup.map(|backup| format!("; what was there is kept as {}", backup.display()));
    ui::note(&harmless(&format!("{} is written{}", path.display(), kept.unwrap_or_default())));
}
