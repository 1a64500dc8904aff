//! What is kept of MCP servers, in the state directory: pins, tokens, and what happened.
//!
//! The state directory is opened at the first use, so that a runtime without servers pays nothing. What a server writes to
//! standard error is kept by lines, and what the policy knows as secret is taken out before it reaches the disk.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use helve_core::ToolError;
use helve_mcp::client::{Owner, Pin, PinStore, ServerLog, TokenStore};
use helve_policy::Policy;
use helve_store::{Home, NewPin, Pins, ServerLogs, StoreError, Tokens};

use super::lane::Keep;

/// The longest line of standard error that is kept in one piece.
const LONGEST_LINE: usize = 8 << 10;

/// What is kept below this state directory, under this policy. `owner` is asked to sign in where a server wants that.
pub fn keep(home: &Path, policy: &Policy, owner: Option<Arc<dyn Owner>>) -> Keep {
    let place = Arc::new(Place { path: home.to_owned(), home: OnceLock::new() });
    Keep {
        pins: Arc::new(KeptPins(place.clone())),
        tokens: Arc::new(KeptTokens(place.clone())),
        log: Arc::new(KeptLog {
            place,
            policy: policy.clone(),
            secrets: OnceLock::new(),
            begun: Mutex::new(HashMap::new()),
        }),
        owner,
    }
}

/// The state directory, opened when it is needed.
struct Place {
    path: PathBuf,
    home: OnceLock<Home>,
}

impl Place {
    fn home(&self) -> Result<&Home, StoreError> {
        if let Some(home) = self.home.get() {
            return Ok(home);
        }
        let home = Home::open(&self.path)?;
        Ok(self.home.get_or_init(|| home))
    }
}

fn failed(error: StoreError) -> ToolError {
    ToolError::internal(error.to_string())
}

struct KeptPins(Arc<Place>);

impl PinStore for KeptPins {
    fn pins(&self, server: &str) -> Result<Option<Vec<Pin>>, ToolError> {
        let pins = Pins::new(self.0.home().map_err(failed)?).of(server).map_err(failed)?;
        let pin = |pin: helve_store::Pin| Pin { tool: pin.tool, hash: pin.hash, definition: pin.definition };
        Ok(pins.map(|pins| pins.into_iter().map(pin).collect()))
    }

    fn pin(&self, server: &str, pins: Vec<Pin>) -> Result<(), ToolError> {
        let new = |pin: Pin| NewPin { tool: pin.tool, hash: pin.hash, definition: pin.definition };
        let pins = pins.into_iter().map(new).collect();
        Pins::new(self.0.home().map_err(failed)?).pin(server, pins).map_err(failed)
    }
}

struct KeptTokens(Arc<Place>);

impl TokenStore for KeptTokens {
    fn get(&self, key: &str) -> Result<Option<String>, ToolError> {
        Tokens::new(self.0.home().map_err(failed)?).get(key).map_err(failed)
    }

    fn set(&self, key: &str, value: &str) -> Result<(), ToolError> {
        Tokens::new(self.0.home().map_err(failed)?).set(key, value).map_err(failed)
    }

    fn remove(&self, key: &str) -> Result<(), ToolError> {
        Tokens::new(self.0.home().map_err(failed)?).remove(key).map(|_| ()).map_err(failed)
    }
}

struct KeptLog {
    place: Arc<Place>,
    policy: Policy,
    /// What must not reach the disk, with what stands in its place.
    secrets: OnceLock<Vec<(String, String)>>,
    /// The line that each server has begun on standard error.
    begun: Mutex<HashMap<String, Vec<u8>>>,
}

impl KeptLog {
    /// A log that cannot be written must not keep a server from working.
    fn note(&self, server: &str, kind: &str, text: &str) {
        let text = self.clean(text);
        let noted = self.place.home().and_then(|home| {
            ServerLogs::new(home, self.policy.limits().mcp_log_bytes).note(server, kind, &text)
        });
        drop(noted);
    }

    fn secrets(&self) -> &[(String, String)] {
        self.secrets.get_or_init(|| {
            let secrets = self.policy.secrets().unwrap_or_default();
            // A secret of several lines is written line by line.
            let lines = secrets.iter().flat_map(|secret| {
                let whole = std::iter::once(secret.value.as_str());
                let lines = secret.value.lines().filter(|line| line.len() >= 8);
                let mark = format!("[redacted:{}]", secret.name.rsplit('/').next().unwrap_or_default());
                whole.chain(lines).map(move |value| (value.to_owned(), mark.clone()))
            });
            lines.collect()
        })
    }

    fn clean(&self, text: &str) -> String {
        let known = self.secrets().iter().filter(|(value, _)| text.contains(value.as_str()));
        known.fold(text.to_owned(), |text, (value, mark)| text.replace(value.as_str(), mark))
    }

    /// The lines that are complete with these bytes; what is begun waits.
    fn lines(&self, server: &str, bytes: &[u8]) -> Vec<String> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let line = begun.entry(server.to_owned()).or_default();
        let mut lines = Vec::new();
        let pieces = bytes.split_inclusive(|byte| *byte == b'\n');
        for piece in pieces.flat_map(|piece| piece.chunks(LONGEST_LINE)) {
            if line.len() + piece.len() > LONGEST_LINE {
                lines.push(self.cut(line));
            }
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                lines.push(String::from_utf8_lossy(line).trim_end_matches(['\n', '\r']).to_owned());
                line.clear();
            }
        }
        lines.retain(|line| !line.is_empty());
        lines
    }

    /// The line that was begun, when something else is to be noted behind it.
    fn rest(&self, server: &str) -> Option<String> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let line = self.cut(begun.get_mut(server)?);
        (!line.is_empty()).then_some(line)
    }

    /// Takes what there is of a line that is not complete. What may be the beginning of a secret waits for the rest of it:
    /// neither half would be recognized.
    fn cut(&self, line: &mut Vec<u8>) -> String {
        let mut text = self.clean(&String::from_utf8_lossy(line));
        let waits = self.secrets().iter().map(|(secret, _)| begun(&text, secret)).max().unwrap_or(0);
        // What stands in the place of a secret may be longer than it.
        let at = text.floor_char_boundary((text.len() - waits).min(LONGEST_LINE));
        *line = text.split_off(at).into_bytes();
        text
    }
}

/// How many of the last bytes of a text are the beginning of a secret, but not all of it.
fn begun(text: &str, secret: &str) -> usize {
    let ends = |length: &usize| secret.get(..*length).is_some_and(|beginning| text.ends_with(beginning));
    (1..secret.len().min(text.len() + 1)).rev().find(ends).unwrap_or(0)
}

impl ServerLog for KeptLog {
    fn stderr(&self, server: &str, bytes: &[u8]) {
        for line in self.lines(server, bytes) {
            self.note(server, "stderr", &line);
        }
    }

    fn event(&self, server: &str, kind: &'static str, text: &str) {
        if let Some(line) = self.rest(server) {
            self.note(server, "stderr", &line);
        }
        self.note(server, kind, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn place() -> (tempfile::TempDir, Keep) {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "geheim-eins\ngeheim-zwei\n").unwrap();
        let policy = Policy::from_toml(&format!("secrets = [{{ file = '{}' }}]", secret.display())).unwrap();
        let keep = keep(&dir.path().join("home"), &policy, None);
        (dir, keep)
    }

    fn log(dir: &tempfile::TempDir) -> Vec<(String, String)> {
        let logs = ServerLogs::new(&Home::open(&dir.path().join("home")).unwrap(), 0);
        logs.of("a").unwrap().into_iter().map(|event| (event.kind, event.text)).collect()
    }

    #[test]
    fn nothing_is_opened_before_it_is_needed() {
        let (dir, keep) = place();
        assert!(!dir.path().join("home").exists());
        assert_eq!(keep.pins.pins("a").unwrap(), None);
        let pin = Pin { tool: "t".into(), hash: "h".into(), definition: json!({}) };
        keep.pins.pin("a", vec![pin.clone()]).unwrap();
        assert_eq!(keep.pins.pins("a").unwrap(), Some(vec![pin]));
        keep.tokens.set("k", "v").unwrap();
        assert_eq!(keep.tokens.get("k").unwrap().as_deref(), Some("v"));
        keep.tokens.remove("k").unwrap();
        assert_eq!(keep.tokens.get("k").unwrap(), None);
    }

    #[test]
    fn standard_error_is_kept_by_lines_and_without_secrets() {
        let (dir, keep) = place();
        for bytes in [&b"one\ntw"[..], b"o geheim-", b"eins!\r\n\n", b"and geheim-zwei and a rest"] {
            keep.log.stderr("a", bytes);
        }
        keep.log.event("a", "ended", "geheim-eins\ngeheim-zwei");
        let expected = [
            ("stderr", "one"),
            ("stderr", "two [redacted:secret]!"),
            ("stderr", "and [redacted:secret] and a rest"),
            ("ended", "[redacted:secret]"),
        ];
        let expected: Vec<(String, String)> =
            expected.into_iter().map(|(kind, text)| (kind.into(), text.into())).collect();
        assert_eq!(log(&dir), expected);
        let kept = std::fs::read_to_string(dir.path().join("home/mcp/a/log.jsonl")).unwrap();
        assert!(!kept.contains("geheim"), "{kept}");
    }

    #[test]
    fn a_secret_is_known_where_a_line_is_cut() {
        for before in LONGEST_LINE - 12..=LONGEST_LINE {
            let (dir, keep) = place();
            keep.log.stderr("a", &vec![b'x'; before]);
            for byte in b"geheim-eins and more" {
                keep.log.stderr("a", &[*byte]);
            }
            keep.log.stderr("a", &vec![b'y'; LONGEST_LINE]);
            keep.log.stderr("a", b"geh");
            keep.log.event("a", "note", "in between");
            keep.log.stderr("a", b"eim-zwei");
            keep.log.event("a", "ended", "");
            let said: String = log(&dir).into_iter().map(|(_, text)| text).collect();
            assert!(
                !said.contains("geh")
                    && !said.contains("eim")
                    && !said.contains("eins")
                    && !said.contains("zwei"),
                "{said}"
            );
            assert_eq!(said.matches("[redacted:secret]").count(), 2, "{said}");
            assert!(said.contains(" and more"), "{said}");
        }
    }

    #[test]
    fn a_line_without_end_is_kept_in_pieces() {
        let (dir, keep) = place();
        for _ in 0..20 {
            keep.log.stderr("a", &[b'x'; 1000]);
        }
        keep.log.event("a", "ended", "");
        let lines = log(&dir);
        assert_eq!(lines.iter().map(|(_, text)| text.len()).sum::<usize>(), 20_000);
        assert!(lines.iter().all(|(_, text)| text.len() <= LONGEST_LINE));
    }
}
