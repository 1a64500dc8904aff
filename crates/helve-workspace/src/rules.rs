//! What the policy says about paths, compiled: which must not be read, and which are protected from writing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use helve_core::files::PathRules;
use helve_core::{DenyRead, ToolError, protected};

use crate::host::is_temporary;
use crate::{names, refuse};

/// The rules of one workspace, compiled once.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    given: PathRules,
    deny_read: DenyRead,
    /// What one call passes over where it looks through what is above it.
    left_out: Option<DenyRead>,
}

impl Rules {
    /// Compiles them; a pattern that is none is an error.
    pub(crate) fn new(given: PathRules) -> Result<Rules, ToolError> {
        let deny_read = DenyRead::new(&given.deny_read)?;
        Ok(Rules { given, deny_read, left_out: None })
    }

    /// The rules of one call that looks through everything below `start` and leaves these patterns out. Who starts in one
    /// of them has named it.
    pub(crate) fn leaving_out(&self, patterns: &[String], start: &str) -> Result<Rules, ToolError> {
        let mut rules = self.clone();
        if !patterns.is_empty() {
            let left_out = DenyRead::new(patterns)?;
            let is_named = left_out.denies(&Path::new(start).join("x"), false);
            rules.left_out = (!is_named).then_some(left_out);
        }
        Ok(rules)
    }

    /// What they were made from.
    pub(crate) fn given(&self) -> &PathRules {
        &self.given
    }

    /// Whether nothing of a path may be read, for the path itself; what lies in a denied directory is asked for by its
    /// own path or is not reached at all. The path is relative to its root.
    pub(crate) fn denies_entry(&self, path: &[u8], is_dir: bool) -> bool {
        let plain = Path::new(OsStr::from_bytes(path));
        let denies = |path: &Path| self.deny_read.denies_entry(path, is_dir);
        let is_denied = !self.deny_read.is_empty()
            && (denies(plain)
                || names::is_odd(path) && denies(Path::new(&seen(&String::from_utf8_lossy(path)))));
        is_denied || self.left_out.as_ref().is_some_and(|left_out| left_out.denies_entry(plain, is_dir))
    }

    /// The same for a path and everything above it.
    pub(crate) fn denies(&self, path: &Path, is_dir: bool) -> bool {
        self.deny_read.denies(path, is_dir)
    }

    /// Refuses a path that no tool reads. It is relative to its root and has neither `..` nor links in it.
    pub(crate) fn check_read(&self, path: &str, shown: &str, is_dir: bool) -> Result<(), ToolError> {
        if self.deny_read.is_empty() || path.is_empty() {
            return Ok(());
        }
        // Also by what a reader sees of it, as a file system may that folds names.
        let denied = |path: &str| self.denies(Path::new(path), is_dir);
        let seen = seen(path);
        match denied(path) || (seen != path && denied(&seen)) {
            true => Err(refuse::denied(shown)),
            false => Ok(()),
        }
    }

    /// Refuses a path that must not be changed, unless the owner agreed to it.
    pub(crate) fn check_write(&self, path: &str, shown: &str, agreed: &[String]) -> Result<(), ToolError> {
        if self.given.read_only {
            return Err(refuse::read_only(shown));
        }
        if let Some(name) = self.protected_name(path)
            && !agreed.iter().any(|one| one == shown)
        {
            return Err(refuse::protected(shown, name));
        }
        if let Some(name) = path.split('/').find(|name| is_temporary(name.as_bytes())) {
            return Err(refuse::temporary(shown, name));
        }
        self.check_read(path, shown, false)
    }

    /// The first name in a path that is protected from writing. What agents keep as whole work trees inside of their own
    /// directory is not.
    fn protected_name<'a>(&self, path: &'a str) -> Option<&'a str> {
        let mut parts = path.split('/').peekable();
        while let Some(name) = parts.next() {
            let seen = names::visible(name);
            if !self.protects_name(name.as_bytes()) && !self.protects_name(seen.as_bytes()) {
                continue;
            }
            let work_tree = seen != protected::GIT && parts.peek() == Some(&protected::WORKTREES);
            if !work_tree {
                return Some(name);
            }
        }
        None
    }

    /// Whether what git obeys may be changed at a path: where the owner agreed to it, or protects nothing of git.
    pub(crate) fn may_change_git(&self, shown: &str, agreed: &[String]) -> bool {
        !self.protects_name(protected::GIT.as_bytes()) || agreed.iter().any(|one| one == shown)
    }

    /// Whether one of a path's names is protected from writing.
    pub(crate) fn protects_name(&self, name: &[u8]) -> bool {
        protected::is_among(&self.given.protected, name)
    }
}

/// What a reader sees of a path.
fn seen(path: &str) -> String {
    path.split('/').map(names::visible).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_core::ErrorKind;

    fn rules(deny: &[&str]) -> Rules {
        let deny_read = deny.iter().map(|one| (*one).to_owned()).collect();
        Rules::new(PathRules { deny_read, ..PathRules::default() }).unwrap()
    }

    #[test]
    fn protected_names_at_any_depth_and_by_what_is_seen() {
        let rules = rules(&[]);
        for path in [
            ".git",
            ".git/config",
            "a/.git/hooks/x",
            ".g\u{200d}it/config",
            "sub/.VSCode/tasks.json",
            ".git/worktrees/x",
        ] {
            assert_eq!(rules.check_write(path, path, &[]).unwrap_err().kind, ErrorKind::Blocked, "{path}");
            assert_eq!(rules.check_write(path, path, &[path.to_owned()]), Ok(()), "{path}");
        }
        for path in
            [".gitignore", ".github/workflows/ci.yml", "docs/.gitkeep", ".claude/worktrees/x/src/lib.rs"]
        {
            assert_eq!(rules.check_write(path, path, &[]), Ok(()), "{path}");
        }
        assert!(rules.check_write(".claude/worktrees/x/.git/config", "", &[]).is_err());
    }

    #[test]
    fn what_is_denied_is_neither_read_nor_written() {
        let rules = rules(&[".env", "*.pem", "secrets/"]);
        for (path, is_dir) in [
            (".env", false),
            ("a/b/.env", false),
            (".ENV", false),
            (".e\u{200b}nv", false),
            ("x.pem", false),
            (".env. ", false),
            ("a/.env.", false),
            ("secrets", true),
            ("secrets/deep/x", false),
        ] {
            assert_eq!(rules.check_read(path, path, is_dir).unwrap_err().kind, ErrorKind::Blocked, "{path}");
            let of_its_own = !path.starts_with("secrets/");
            assert_eq!(rules.denies_entry(path.as_bytes(), is_dir), of_its_own, "{path}");
        }
        assert!(rules.check_write(".env", ".env", &[]).is_err());
        for path in ["", "env", ".env.example", "secrets"] {
            assert_eq!(rules.check_read(path, path, false), Ok(()), "{path}");
            assert!(!rules.denies_entry(path.as_bytes(), false), "{path}");
        }
    }

    #[test]
    fn names_of_helves_own_files_are_not_written() {
        let rules = rules(&[]);
        for path in [".helve-0123456789abcdef-1.tmp", "a/.helve-0123456789abcdef-ff.tmp/x"] {
            assert_eq!(rules.check_write(path, path, &[]).unwrap_err().kind, ErrorKind::ToolFailed, "{path}");
        }
        for path in [".helve-1.tmp", "x.tmp", ".helve-0123456789abcdef-.tmp"] {
            assert_eq!(rules.check_write(path, path, &[]), Ok(()), "{path}");
        }
    }

    #[test]
    fn a_read_only_workspace_is_not_written() {
        let rules = Rules::new(PathRules { read_only: true, ..PathRules::default() }).unwrap();
        assert_eq!(rules.check_write("x", "x", &[]).unwrap_err().kind, ErrorKind::Blocked);
    }

    #[test]
    fn a_pattern_that_is_none_is_an_error_that_names_it() {
        let given = PathRules { deny_read: vec!["a{b".to_owned()], ..PathRules::default() };
        let error = Rules::new(given).unwrap_err();
        assert!(error.message.contains("a{b"), "{}", error.message);
    }
}
