//! A session as a folder that can be given to others: the journal, the outputs that it names, and what is known of the
//! machine, with secrets taken out.
//!
//! In: a session, what takes known secrets out of a text, and further files. Out: a new folder; nothing is ever overwritten.
//!
//! ```text
//! README.md        what is in the folder, and what was taken out
//! journal.jsonl    the journal's entries; one that lost a secret has "cleaned": true, and no longer fits its hash
//! blobs/<64 hex>   whole outputs that entries name, cleaned alike
//! …                what else the caller gives, one JSON file each
//! ```
//!
//! Deliberately not here: files of the workspace. What a tool showed of them is in the journal.

mod clean;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use helve::store::{Blobs, Home, StoreError, Tail};
use regex::Regex;
use serde::Serialize;
use serde_json::{Value, json};

pub use clean::Cleaner;

/// An output of more bytes is left out.
const MOST_BLOB_BYTES: u64 = 32 * 1024 * 1024;
/// All outputs together.
const MOST_BYTES: u64 = 256 * 1024 * 1024;
/// Outputs that are looked for.
const MOST_BLOBS: usize = 10_000;

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// The folder.
    pub folder: PathBuf,
    /// Entries of the journal.
    pub entries: u64,
    /// Those of them from which something was taken out.
    pub cleaned_entries: u64,
    /// Outputs.
    pub blobs: u64,
    /// Those of them from which something was taken out.
    pub cleaned_blobs: u64,
    /// Outputs that are not in the folder, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// Why there is no folder.
#[derive(Debug)]
pub enum ExportError {
    /// There is something already.
    Exists(PathBuf),
    /// The journal cannot be read.
    Store(StoreError),
    /// The folder cannot be written.
    Write(PathBuf, io::Error),
}

impl std::fmt::Display for ExportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExportError::Exists(path) => {
                let path = path.display();
                write!(f, "{path} is there already, and nothing is overwritten. Name another folder")
            }
            ExportError::Store(error) => write!(f, "{error}"),
            ExportError::Write(path, error) => write!(f, "{} cannot be written: {error}", path.display()),
        }
    }
}

impl std::error::Error for ExportError {}

impl From<StoreError> for ExportError {
    fn from(error: StoreError) -> Self {
        ExportError::Store(error)
    }
}

/// Writes the folder. `more` are further files by name, such as `versions`.
pub fn export(
    home: &Home,
    session: &str,
    folder: &Path,
    cleaner: &Cleaner<'_>,
    more: &[(&str, Value)],
) -> Result<Exported, ExportError> {
    // Before anything is made: a session that is not there leaves no folder.
    let tail = Tail::open(home, session, 0)?;
    DirBuilder::new().mode(0o700).create(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => ExportError::Exists(folder.to_owned()),
        _ => ExportError::Write(folder.to_owned(), error),
    })?;
    let mut exported = Exported { folder: folder.to_owned(), ..Exported::default() };
    let blobs = write_journal(tail, folder, cleaner, &mut exported)?;
    write_blobs(home, &blobs, folder, cleaner, &mut exported)?;
    for (name, value) in more {
        let mut value = value.clone();
        cleaner.value(&mut value);
        let text = serde_json::to_string_pretty(&value).unwrap_or_default() + "\n";
        write_whole(&folder.join(format!("{name}.json")), text.as_bytes())?;
    }
    let names: Vec<&str> = more.iter().map(|(name, _)| *name).collect();
    write_whole(&folder.join("README.md"), readme(session, &exported, &names).as_bytes())?;
    Ok(exported)
}

/// Writes the journal; gives the outputs that it names.
fn write_journal(
    mut tail: Tail,
    folder: &Path,
    cleaner: &Cleaner<'_>,
    exported: &mut Exported,
) -> Result<BTreeSet<String>, ExportError> {
    let path = folder.join("journal.jsonl");
    let failed = |error: io::Error| ExportError::Write(path.clone(), error);
    let mut out = BufWriter::new(create(&path)?);
    let mut named = BTreeSet::new();
    while let Some(record) = tail.next_record()? {
        blobs_in(&record.body, &mut named);
        let mut line = serde_json::to_value(&record).unwrap_or(Value::Null);
        let before = line["body"].clone();
        if let Some(body) = line.get_mut("body") {
            cleaner.value(body);
        }
        line["v"] = json!(1);
        exported.entries += 1;
        if line["body"] != before {
            exported.cleaned_entries += 1;
            line["cleaned"] = json!(true);
        }
        serde_json::to_writer(&mut out, &line).map_err(|error| failed(error.into()))?;
        out.write_all(b"\n").map_err(failed)?;
    }
    out.flush().map_err(failed)?;
    Ok(named)
}

/// The outputs that an entry names, by themselves or within a text. What calls replaced in files is not among them, and the
/// hashes of requests are of the same form and name nothing.
fn blobs_in(value: &Value, named: &mut BTreeSet<String>) {
    const NO_OUTPUTS: &[&str] = &["changes", "request", "system", "tools"];
    match value {
        Value::String(text) => {
            for found in BLOB.iter().flat_map(|pattern| pattern.find_iter(text)) {
                if named.len() < MOST_BLOBS {
                    named.insert(found.as_str().to_owned());
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| blobs_in(value, named)),
        Value::Object(map) => {
            let members = map.iter().filter(|(key, _)| !NO_OUTPUTS.contains(&key.as_str()));
            members.for_each(|(_, value)| blobs_in(value, named));
        }
        _ => {}
    }
}

static BLOB: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\bb3:[0-9a-f]{64}\b").ok());

fn write_blobs(
    home: &Home,
    named: &BTreeSet<String>,
    folder: &Path,
    cleaner: &Cleaner<'_>,
    exported: &mut Exported,
) -> Result<(), ExportError> {
    if named.is_empty() {
        return Ok(());
    }
    let dir = folder.join("blobs");
    DirBuilder::new().mode(0o700).create(&dir).map_err(|error| ExportError::Write(dir.clone(), error))?;
    let stored = Blobs::open(home, u64::MAX)?;
    let mut all = 0;
    for id in named {
        match read_blob(&stored, id, MOST_BYTES - all) {
            Ok(text) => {
                all += text.len() as u64;
                let clean = cleaner.text(&text);
                exported.blobs += 1;
                exported.cleaned_blobs += u64::from(clean != text);
                write_whole(&dir.join(id.trim_start_matches("b3:")), clean.as_bytes())?;
            }
            Err(why) => exported.left_out.push((id.clone(), why)),
        }
    }
    Ok(())
}

fn read_blob(stored: &Blobs, id: &str, room: u64) -> Result<String, String> {
    let file = stored.open_blob(id).map_err(|error| error.to_string())?;
    let most = MOST_BLOB_BYTES.min(room);
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > most {
        return Err("it is too long".to_owned());
    }
    String::from_utf8(bytes).map_err(|_| "it is not text, and secrets in it could not be found".to_owned())
}

fn create(path: &Path) -> Result<File, ExportError> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.map_err(|error| ExportError::Write(path.to_owned(), error))
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ExportError> {
    create(path)?.write_all(bytes).map_err(|error| ExportError::Write(path.to_owned(), error))
}

fn readme(session: &str, exported: &Exported, more: &[&str]) -> String {
    let mut text = format!(
        "# The Helve session `{session}`\n\n\
         Made by `helve export` for whoever looks into it. Secrets that the policy knows, and what looks like a token, a key \
         or a password, were replaced by `[REMOVED]` or `[REDACTED…]`. Look through it once more before you give it away: \
         what does not look like a secret is still here.\n\n\
         | file | what it is |\n|---|---|\n\
         | `journal.jsonl` | {} entries, one a line; {} lost something (`\"cleaned\": true`) and no longer fit their hashes |\n",
        exported.entries, exported.cleaned_entries
    );
    if exported.blobs > 0 {
        let _ = writeln!(
            text,
            "| `blobs/` | {} whole outputs by the hash of what they were; {} lost something |",
            exported.blobs, exported.cleaned_blobs
        );
    }
    for name in more {
        let _ = writeln!(text, "| `{name}.json` | {} |", about(name));
    }
    if !exported.left_out.is_empty() {
        text.push_str("\nNot here:\n\n");
        for (id, why) in &exported.left_out {
            let _ = writeln!(text, "- `{id}`: {why}");
        }
    }
    text.push_str(
        "\n`helve agent --model replay:journal.jsonl TASK` lets the model's side of it speak again, with real tools.\n",
    );
    text
}

fn about(name: &str) -> &'static str {
    match name {
        "versions" => "the versions of Helve and the system",
        "doctor" => "what `helve doctor` found on the machine",
        "verify" => "what `helve verify` said of the journal before it was exported",
        _ => "more",
    }
}

#[cfg(test)]
mod tests;
