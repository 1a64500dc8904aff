//! Which directories may be a workspace: not `/`, not a home directory, nothing that holds Helve's own state.

use std::path::{Path, PathBuf};

use helve_core::{ErrorKind, ToolError};

/// The workspace's real path, or why it cannot be one.
pub(crate) fn check(workspace: &Path, helve_home: &Path) -> Result<PathBuf, ToolError> {
    let real = workspace.canonicalize().map_err(|error| {
        ToolError::not_found(format!("The workspace {} cannot be opened: {error}", workspace.display()))
            .hint("Name an existing directory with --workspace DIR.")
    })?;
    if !real.is_dir() {
        return Err(refused(&real, "it is not a directory"));
    }
    if real == Path::new("/") {
        return Err(refused(&real, "it is the root of the file system"));
    }
    let user_home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    if user_home.is_some_and(|home| home.starts_with(&real)) {
        return Err(refused(&real, "it is a home directory or holds one"));
    }
    // Where it does not exist yet, its nearest existing parent says where it would be.
    let state = helve_home.ancestors().find_map(|dir| {
        let rest = helve_home.strip_prefix(dir).ok()?;
        dir.canonicalize().ok().map(|real| real.join(rest))
    });
    if state.is_some_and(|state| state.starts_with(&real) || real.starts_with(&state)) {
        return Err(refused(&real, "it holds Helve's own state"));
    }
    Ok(real)
}

fn refused(path: &Path, why: &str) -> ToolError {
    ToolError::new(ErrorKind::Blocked, format!("{} cannot be a workspace: {why}.", path.display()))
        .hint("Choose a project directory with --workspace DIR.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_not_be_shown_to_a_command_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join("ws/state/inner")).unwrap();
        std::fs::write(root.join("file"), "").unwrap();
        let state = root.join("ws/state");
        let why = |path: &Path| check(path, &state).unwrap_err().message;
        assert!(why(Path::new("/")).contains("root of the file system"));
        assert!(why(&root.join("ws")).contains("own state"));
        assert!(why(&root.join("ws/state/inner")).contains("own state"));
        assert!(why(&root.join("file")).contains("not a directory"));
        assert!(why(&root.join("gone")).contains("cannot be opened"));
        assert!(check(&root.join("ws"), &root.join("elsewhere/state")).is_ok());
    }

    #[test]
    fn a_link_to_a_forbidden_directory_is_refused_too() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/", &link).unwrap();
        assert!(check(&link, Path::new("/nowhere/state")).is_err());
    }
}
