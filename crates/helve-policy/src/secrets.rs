//! The values that must never reach a model or the journal, by where the owner keeps them.
//!
//! The configuration names an environment variable or a file; the value is read when the runtime starts. Nothing here
//! prints a value.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::config::layers::ConfigError;
use crate::file;

/// A shorter value would blot out ordinary text, and guessing it is no work.
const MIN_CHARS: usize = 4;

/// The largest secret file that is read.
const MAX_BYTES: u64 = 64 << 10;

/// Where a secret is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SecretSource {
    Env(String),
    File(PathBuf),
}

impl SecretSource {
    /// The entry as the owner writes it; never the value.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            SecretSource::Env(name) => serde_json::json!({ "env": name }),
            SecretSource::File(path) => serde_json::json!({ "file": path.to_string_lossy() }),
        }
    }
}

/// A value to keep out of everything that is shown or written.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// The variable or the path under which the owner named it.
    pub name: String,
    /// The value itself.
    pub value: String,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Reads the values. A variable that is not set, or is blank, holds no secret; a file that is absent is an error,
/// because its value may be in use elsewhere and could not be recognised.
pub(crate) fn read(
    sources: &[SecretSource],
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<Secret>, ConfigError> {
    let mut secrets = Vec::new();
    let mut problems = Vec::new();
    for source in sources {
        let (name, value) = match source {
            SecretSource::Env(name) => match variable(name) {
                Some(value) if !value.trim().is_empty() => (name.clone(), value),
                _ => continue,
            },
            SecretSource::File(path) => {
                let name = path.display().to_string();
                match read_file(path) {
                    Ok(value) => (name, value),
                    Err(error) => {
                        problems.push(format!("`secrets`: {name} cannot be read: {error}"));
                        continue;
                    }
                }
            }
        };
        // White space around it is what programs trim.
        if value.trim().chars().count() < MIN_CHARS {
            problems.push(format!(
                "`secrets`: the value of {name} is shorter than {MIN_CHARS} characters, so hiding it would spoil \
                 ordinary text; use a longer secret or take the entry out"
            ));
            continue;
        }
        secrets.push(Secret { name, value });
    }
    if problems.is_empty() { Ok(secrets) } else { Err(ConfigError::all(problems)) }
}

/// The text of a file without the newlines at its end, which editors add.
fn read_file(path: &Path) -> std::io::Result<String> {
    let mut text = file::read(path, MAX_BYTES)?;
    text.truncate(text.trim_end_matches(['\n', '\r']).len());
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn read_one(source: SecretSource) -> Result<Vec<Secret>, ConfigError> {
        read(&[source], |name| match name {
            "TOKEN" => Some("s3cret".into()),
            "SHORT" => Some("abc".into()),
            "EMPTY" => Some(String::new()),
            "BLANK" => Some("     \n".into()),
            "WIDE" => Some("  abc \n".into()),
            _ => None,
        })
    }

    #[test]
    fn variables_give_their_value_or_nothing() {
        let secret = Secret { name: "TOKEN".into(), value: "s3cret".into() };
        assert_eq!(read_one(SecretSource::Env("TOKEN".into())), Ok(vec![secret]));
        assert_eq!(read_one(SecretSource::Env("EMPTY".into())), Ok(vec![]));
        assert_eq!(read_one(SecretSource::Env("UNSET".into())), Ok(vec![]));
        assert_eq!(read_one(SecretSource::Env("BLANK".into())), Ok(vec![]));
        assert!(read_one(SecretSource::Env("SHORT".into())).is_err());
        assert!(read_one(SecretSource::Env("WIDE".into())).is_err());
    }

    #[test]
    fn files_give_their_text_without_the_last_newline() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "one two\n").unwrap();
        let found = read_one(SecretSource::File(file.path().into())).unwrap();
        assert_eq!(found[0].value, "one two");
        std::fs::write(file.path(), "x".repeat(MAX_BYTES as usize + 1)).unwrap();
        assert!(read_one(SecretSource::File(file.path().into())).is_err());
        let absent = read_one(SecretSource::File("/nonexistent/secret".into())).unwrap_err();
        assert!(absent.to_string().contains("/nonexistent/secret"), "{absent}");
    }

    #[test]
    fn a_pipe_that_nobody_writes_is_not_waited_for_and_every_problem_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        let sources = [SecretSource::File(pipe), SecretSource::Env("SHORT".into())];
        let error = read(&sources, |_| Some("abc".into())).unwrap_err();
        let [pipe, short] = error.problems() else { panic!("{error}") };
        assert!(pipe.contains("not a regular file"), "{pipe}");
        assert!(short.contains("shorter than 4 characters"), "{short}");
    }

    #[test]
    fn debug_shows_no_value() {
        let secret = Secret { name: "TOKEN".into(), value: "s3cret".into() };
        assert!(!format!("{secret:?}").contains("s3cret"));
    }
}
