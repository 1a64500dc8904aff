//! Names of files that, lying in a workspace, run or configure programs of its owner without being asked.
//!
//! One list for everybody: the guard refuses commands that plainly write such a file, and a sandbox neither lets a
//! command change one nor leave a new one behind. In it is what a program on the owner's side obeys as soon as it opens
//! or enters the directory; not in it is what a project is made of (build files, `.gitattributes`, workflows), which an
//! agent is there to edit and which acts only when somebody builds or pushes.

use std::ffi::OsStr;
use std::path::{Component, Path};

/// The name that stands for git's structure: not the whole directory is protected, but what in it runs programs.
pub const GIT: &str = ".git";

/// Every name, in the order of the alphabet. Case does not count: file systems exist that do not tell it.
pub const NAMES: &[&str] = &[
    // Agents.
    ".agent",
    ".agents",
    // Shells, which a home directory that is a workspace would hold.
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".claude",
    ".codex",
    ".cursor",
    // direnv.
    ".envrc",
    ".gemini",
    GIT,
    ".gitconfig",
    // Editors.
    ".idea",
    ".inputrc",
    // Servers that agents start.
    ".mcp.json",
    ".profile",
    ".vscode",
    ".windsurf",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

/// The directory inside a protected one in which agents keep whole work trees, which are theirs to edit.
pub const WORKTREES: &str = "worktrees";

/// Whether `name` is one of `names`, whatever its case.
pub fn is_among<S: AsRef<str>>(names: &[S], name: &[u8]) -> bool {
    names.iter().any(|one| one.as_ref().as_bytes().eq_ignore_ascii_case(name))
}

/// The first of a path's names that is protected from file tools. What lies in a work tree that an agent keeps inside its
/// own directory is the tree's, so names count there as they do elsewhere; of git's directory all counts.
pub fn find<'p, S: AsRef<str>>(names: &[S], path: &'p Path) -> Option<&'p OsStr> {
    let mut parts = path.components().map(Component::as_os_str).peekable();
    while let Some(part) = parts.next() {
        let name = part.as_encoded_bytes();
        if !is_among(names, name) {
            continue;
        }
        let of_agent = !is_among(&[GIT], name) && parts.next_if(|next| *next == WORKTREES).is_some();
        // The directory of the trees itself is the agent's.
        if !of_agent || parts.peek().is_none() {
            return Some(part);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_at_any_depth_and_not_for_the_work_trees_below_it() {
        let found = |path| find(NAMES, Path::new(path)).and_then(OsStr::to_str);
        assert_eq!(found("a/.vscode/x"), Some(".vscode"));
        assert_eq!(found("a/.Git/hooks/x"), Some(".Git"));
        assert_eq!(found(".git/worktrees/x"), Some(".git"));
        assert_eq!(found(".claude/settings.json"), Some(".claude"));
        assert_eq!(found(".claude/worktrees"), Some(".claude"));
        assert_eq!(found(".claude/worktrees/one/src/lib.rs"), None);
        assert_eq!(found(".claude/worktrees/one/.bashrc"), Some(".bashrc"));
        assert_eq!(found("src/.gitignore"), None);
    }

    #[test]
    fn names_are_sorted_hidden_and_lower_case() {
        assert!(NAMES.is_sorted());
        for name in NAMES {
            assert!(name.starts_with('.') && !name.contains('/'), "{name}");
            assert_eq!(*name, name.to_ascii_lowercase());
        }
    }

    #[test]
    fn case_does_not_count_and_every_letter_does() {
        assert!(is_among(NAMES, b".VSCode"));
        assert!(is_among(NAMES, b".git"));
        for name in [&b"vscode"[..], b".vscodes", b".github", b".gitignore", b"", b"."] {
            assert!(!is_among(NAMES, name), "{name:?}");
        }
    }
}
