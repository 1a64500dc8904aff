//! Patterns of paths that nobody reads: one matcher for the file tools and for the view of a sandboxed command.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::error::{ErrorKind, ToolError};

/// How deep `{}` may nest in a pattern: they are read by recursion.
const NESTING: usize = 32;
/// So many characters of a pattern that nests too deep are shown.
const SHOWN: usize = 80;

/// The key of the patterns in the configuration; what says that a path is closed names it.
pub const KEY: &str = "files.deny_read";

/// What a call is told that names a path which nobody reads; `shown` is harmless text.
pub fn closed(shown: &str) -> ToolError {
    ToolError::new(ErrorKind::Blocked, format!("'{shown}' is closed to tools ({KEY})."))
        .hint(format!("Do without it. Only the owner can change {KEY}."))
}

/// Whether an error says what [`closed`] does.
pub fn says_closed(kind: ErrorKind, message: &str) -> bool {
    kind == ErrorKind::Blocked && message.contains(&format!("' is closed to tools ({KEY})."))
}

/// Whether the braces of a glob nest deeper than can be read with a bounded stack. Such a pattern must not be compiled.
pub fn nests_too_deep(pattern: &str) -> bool {
    let (mut depth, mut escaped) = (0_usize, false);
    for byte in pattern.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > NESTING {
            return true;
        }
    }
    false
}

/// Patterns in the syntax of `.gitignore`. Paths are relative to the workspace, or to another root.
///
/// They are read at once and compiled at the first question: that takes longer than to start a process, and in many a
/// workspace there is nothing to ask about.
#[derive(Clone, Debug)]
pub struct DenyRead(Arc<Patterns>);

#[derive(Debug)]
struct Patterns {
    read: GitignoreBuilder,
    is_empty: bool,
    /// None if they are too large to be compiled.
    compiled: OnceLock<Option<Gitignore>>,
    /// The directories above what patterns of several names deny, as patterns.
    above: Vec<String>,
    /// The same, compiled; none if that cannot be done.
    above_compiled: OnceLock<Option<Gitignore>>,
}

impl DenyRead {
    /// Reads them; a pattern that is none is an error.
    pub fn new<S: AsRef<str>>(patterns: &[S]) -> Result<DenyRead, ToolError> {
        let mut read = GitignoreBuilder::new("");
        // A name that a file system without upper and lower case would take for the same is the same.
        read.case_insensitive(true).map_err(|error| wrong("", &error))?;
        for pattern in patterns {
            if nests_too_deep(pattern.as_ref()) {
                let shown: String = pattern.as_ref().chars().take(SHOWN).collect();
                return Err(wrong(&shown, &format!("more than {NESTING} braces in each other")));
            }
            read.add_line(None, pattern.as_ref()).map_err(|error| wrong(pattern.as_ref(), &error))?;
        }
        let patterns = Patterns {
            read,
            is_empty: patterns.is_empty(),
            compiled: OnceLock::new(),
            above: directories_above(patterns),
            above_compiled: OnceLock::new(),
        };
        Ok(DenyRead(Arc::new(patterns)))
    }

    /// Whether nothing is denied.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty
    }

    /// Whether an entry is denied by its own path, where nothing above it is: for a walk, which enters no denied directory.
    pub fn denies_entry(&self, path: &Path, is_dir: bool) -> bool {
        !self.is_empty() && self.matches(path, is_dir)
    }

    /// Whether a path, or a directory above it, is denied.
    pub fn denies(&self, path: &Path, is_dir: bool) -> bool {
        !self.is_empty()
            // The library's own question about parents takes no absolute path and no `..`.
            && path.ancestors().any(|above| {
                !above.as_os_str().is_empty() && self.matches(above, is_dir || above != path)
            })
    }

    /// Whether something below a directory with this path can be denied for the sake of this path: by a pattern that names
    /// the directories above what it denies. Who reaches the directory by another path does not see that it is denied.
    pub fn may_deny_below(&self, path: &Path) -> bool {
        let above = || self.0.above_compiled.get_or_init(|| compile(&self.0.above));
        // Where it cannot be told, it can be.
        !self.0.above.is_empty() && above().as_ref().is_none_or(|above| above.matched(path, true).is_ignore())
    }

    fn matches(&self, path: &Path, is_dir: bool) -> bool {
        let compiled = self.0.compiled.get_or_init(|| self.0.read.build().ok());
        // Where it cannot be told what is denied, everything is.
        compiled.as_ref().is_none_or(|compiled| compiled.matched(path, is_dir).is_ignore())
    }
}

/// The directories above what patterns of several names deny: `a/b/*.key` is below `a` and `a/b`.
fn directories_above<S: AsRef<str>>(patterns: &[S]) -> Vec<String> {
    let mut above = Vec::new();
    for pattern in patterns {
        let pattern = pattern.as_ref().trim_end();
        if pattern.starts_with(['#', '!']) {
            continue;
        }
        let mut directory = String::new();
        let mut parts = pattern.trim_matches('/').split('/').peekable();
        while let Some(part) = parts.next()
            && parts.peek().is_some()
        {
            directory.push('/');
            directory.push_str(part);
            // What is at any depth is found by every path.
            if directory.split('/').any(|part| !matches!(part, "" | "**")) {
                above.push(directory.clone());
            }
        }
    }
    above
}

/// None if one of them is no pattern by itself: the piece of one whose alternatives hold a `/`.
fn compile(patterns: &[String]) -> Option<Gitignore> {
    let mut read = GitignoreBuilder::new("");
    read.case_insensitive(true).ok()?;
    for pattern in patterns {
        read.add_line(None, pattern).ok()?;
    }
    read.build().ok()
}

fn wrong(pattern: &str, error: &dyn std::fmt::Display) -> ToolError {
    let message = format!("The pattern '{pattern}' of deny_read cannot be understood: {error}");
    ToolError::new(ErrorKind::InvalidParams, message)
        .hint("Write it as in a .gitignore file: .env, *.pem, secrets/**")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_gitignore_and_case_does_not_count() {
        let deny = DenyRead::new(&[".env", ".env.*", "!.env.example", "*.pem", "/top", "secrets/"]).unwrap();
        let files =
            [".env", "a/.ENV", ".env.local", "a/.env.example", "key.PEM", "top", "a/top", "secrets", "x"];
        let denied = [true, true, true, false, true, true, false, false, false];
        assert_eq!(files.map(|path| deny.denies(Path::new(path), false)), denied);
        assert_eq!(files.map(|path| deny.denies_entry(Path::new(path), false)), denied);
        assert!(deny.denies(Path::new("secrets"), true));
        assert!(deny.denies(Path::new("a/secrets/b/c"), false));
        assert!(!deny.denies_entry(Path::new("a/secrets/b/c"), false));
    }

    #[test]
    fn that_a_path_is_closed_is_told_from_other_refusals() {
        let error = closed(".env");
        assert!(says_closed(error.kind, &error.message));
        assert!(!says_closed(ErrorKind::NotFound, &error.message));
        assert!(!says_closed(ErrorKind::Blocked, "'.env' leads outside the workspace."));
    }

    #[test]
    fn what_is_no_pattern_is_named_and_no_pattern_denies_nothing() {
        assert!(DenyRead::new(&["a[z-a]"]).unwrap_err().message.contains("a[z-a]"));
        assert!(!DenyRead::new::<&str>(&[]).unwrap().denies(Path::new(".env"), false));
    }

    #[test]
    fn braces_nest_only_so_deep() {
        let nested = |depth: usize| format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        assert!(!nests_too_deep(&nested(NESTING)));
        assert!(nests_too_deep(&nested(NESTING + 1)));
        assert!(!nests_too_deep(&"{a,b}".repeat(1000)));
        assert!(!nests_too_deep(&"\\{".repeat(1000)));
        let error = DenyRead::new(&[nested(100_000)]).unwrap_err();
        assert!(error.message.len() < 300, "{}", error.message);
    }

    #[test]
    fn directories_above_what_is_denied_are_known() {
        let deny =
            DenyRead::new(&["*.pem", ".ssh/", ".config/gh/hosts.yml", "**/x/*.key", "/a/**/b", "!n/o"])
                .unwrap();
        let cases = [
            (".config", true),
            (".CONFIG", true),
            (".config/gh", true),
            (".config/other", false),
            ("deep/.config", false),
            ("x", true),
            ("deep/x", true),
            ("deep", false),
            ("a", true),
            ("a/any/where", true),
            (".ssh", false),
            ("n", false),
        ];
        for (path, expected) in cases {
            assert_eq!(deny.may_deny_below(Path::new(path)), expected, "{path}");
        }
        let deny = DenyRead::new(&["{a/b,c}/d"]).unwrap();
        assert!(deny.may_deny_below(Path::new("anything")));
        assert!(!DenyRead::new::<&str>(&[]).unwrap().may_deny_below(Path::new("a")));
    }
}
