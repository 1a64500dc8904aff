//! Names of files that, lying in a workspace, run or configure programs of its owner without being asked.
//!
//! One list for everybody: the guard refuses commands that plainly write such a file, and a sandbox neither lets a
//! command change one nor leave a new one behind. In it is what a program on the owner's side obeys as soon as it opens
//! or enters the directory, or starts there; not in it is what a project is made of (build files, settings of linters,
//! `.gitattributes`, workflows, `AGENTS.md`), which an agent is there to edit and which acts only when somebody builds,
//! commits or pushes.

use std::ffi::OsStr;
use std::path::{Component, Path};

/// The name that stands for git's structure: not the whole directory is protected, but what in it runs programs.
pub const GIT: &str = ".git";

/// Every name, in the order of the alphabet. Case does not count: file systems exist that do not tell it. A name that begins
/// with `*` stands for all that end so.
///
/// | kind | what obeys them, and when |
/// |---|---|
/// | `.claude`, `.zed`, `.mcp.json` and the like | agents and editors, when they open the directory: servers, tasks, hooks, rules |
/// | `.vimrc`, `.dir-locals.el`, `.kateproject` | editors, when they start there or open a file |
/// | `.envrc`, `mise.toml`, `.rvmrc` | shells, when they enter the directory |
/// | `.gdbinit`, `.irbrc`, `.rprofile` | debuggers and interpreters, when they start there |
/// | `.git`, `hgrc`, `.husky` | version control, which prompts and editors ask for its state; its hooks |
/// | `.bashrc`, `.xprofile`, `.tmux.conf` | shells and sessions, where a home directory is the workspace |
pub const NAMES: &[&str] = &[
    "*.code-workspace",
    "*.sublime-project",
    ".agent",
    ".agents",
    ".aider.conf.yml",
    ".aider.model.settings.yml",
    ".amazonq",
    ".amp",
    ".augment",
    ".autoenv",
    ".autoenv.zsh",
    ".autoenv_leave.zsh",
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".claude",
    ".claude.json",
    ".cline",
    ".clinerules",
    ".codeium",
    ".codex",
    ".continue",
    ".continuerc.json",
    ".continuerules",
    ".copilot",
    ".crush",
    ".crush.json",
    ".cshrc",
    ".cursor",
    ".cursorrules",
    ".devcontainer",
    ".devcontainer.json",
    ".dir-locals-2.el",
    ".dir-locals.el",
    ".emacs",
    ".emacs.d",
    ".envrc",
    ".erlang",
    ".exrc",
    ".factory",
    ".gdbinit",
    ".gemini",
    ".ghci",
    GIT,
    ".gitconfig",
    ".githooks",
    ".goose",
    ".goosehints",
    ".gvimrc",
    ".helix",
    ".husky",
    ".idea",
    ".iex.exs",
    ".inputrc",
    ".ipython",
    ".irbrc",
    ".junie",
    ".kateproject",
    ".kilocode",
    ".kilocodemodes",
    ".kiro",
    ".kshrc",
    ".lldbinit",
    ".login",
    ".logout",
    ".lsp",
    ".lvimrc",
    ".mcp.json",
    ".mise",
    ".mise.local.toml",
    ".mise.toml",
    ".mkshrc",
    ".neoconf.json",
    ".nvim.lua",
    ".nvimrc",
    ".ocamlinit",
    ".octaverc",
    ".opencode",
    ".openhands",
    ".pam_environment",
    ".pdbrc",
    ".perldb",
    ".profile",
    ".pryrc",
    ".qwen",
    ".renviron",
    ".roo",
    ".roomodes",
    ".roorules",
    ".rprofile",
    ".rvmrc",
    ".screenrc",
    ".shadowenv.d",
    ".spacemacs",
    ".tcshrc",
    ".theia",
    ".tmux.conf",
    ".trae",
    ".vim",
    ".vimrc",
    ".vscode",
    ".wezterm.lua",
    ".windsurf",
    ".windsurfrules",
    ".xinitrc",
    ".xonshrc",
    ".xprofile",
    ".xserverrc",
    ".xsession",
    ".xsessionrc",
    ".ycm_extra_conf.py",
    ".zed",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "_exrc",
    "_vimrc",
    "config.fish",
    "crush.json",
    "hgrc",
    "mise.local.toml",
    "mise.toml",
    "opencode.json",
    "opencode.jsonc",
];

/// The directory inside a protected one in which agents keep whole work trees, which are theirs to edit.
pub const WORKTREES: &str = "worktrees";

/// Whether `name` is one of `names`, whatever its case.
pub fn is_among<S: AsRef<str>>(names: &[S], name: &[u8]) -> bool {
    entry(names, name).is_some()
}

/// The one of `names` that `name` is, or that it ends with.
pub fn entry<'n, S: AsRef<str>>(names: &'n [S], name: &[u8]) -> Option<&'n str> {
    names.iter().map(AsRef::as_ref).find(|one| match one.strip_prefix('*') {
        None => one.as_bytes().eq_ignore_ascii_case(name),
        Some(end) => {
            let from = name.len().checked_sub(end.len());
            from.is_some_and(|from| name[from..].eq_ignore_ascii_case(end.as_bytes()))
        }
    })
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
    fn names_are_sorted_and_lower_case() {
        assert!(NAMES.is_sorted());
        for name in NAMES {
            assert!(!name.is_empty() && !name.contains('/') && *name != "*", "{name}");
            assert_eq!(*name, name.to_ascii_lowercase());
        }
    }

    #[test]
    fn what_programs_obey_by_themselves_counts_and_what_projects_are_made_of_does_not() {
        let found = |path: &str| find(NAMES, Path::new(path)).is_some();
        for path in [
            ".zed/tasks.json",
            ".husky/pre-commit",
            ".nvim.lua",
            ".dir-locals.el",
            ".devcontainer/devcontainer.json",
            "x.code-workspace",
            "sub/Team.Code-Workspace",
            ".kiro/settings/mcp.json",
            ".opencode/plugin/x.js",
            "opencode.json",
            ".aider.conf.yml",
            ".cursorrules",
            ".gdbinit",
            ".config/fish/config.fish",
            "r/.Rprofile",
            ".hg/hgrc",
            "mise.toml",
        ] {
            assert!(found(path), "{path}");
        }
        for path in [
            "package.json",
            "Makefile",
            "build.rs",
            ".npmrc",
            ".editorconfig",
            ".github/workflows/ci.yml",
            ".pre-commit-config.yaml",
            ".cargo/config.toml",
            ".config/nextest.toml",
            ".gitattributes",
            ".tool-versions",
            ".hg/store/data/x",
            "AGENTS.md",
            "code-workspace",
            "src/crush/json.rs",
            "emacs.d/init.el",
        ] {
            assert!(!found(path), "{path}");
        }
    }

    #[test]
    fn case_does_not_count_and_every_letter_does() {
        assert!(is_among(NAMES, b".VSCode"));
        assert!(is_among(NAMES, b".git"));
        for name in [&b"vscode"[..], b".vscodes", b".github", b".gitignore", b"", b"."] {
            assert!(!is_among(NAMES, name), "{name:?}");
        }
        assert_eq!(entry(NAMES, b"a.CODE-workspace"), Some("*.code-workspace"));
    }
}
