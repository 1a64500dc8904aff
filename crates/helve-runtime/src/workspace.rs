//! Which directories may be a workspace: not `/`, not a home directory, nothing that holds Helve's own state; and which
//! others commands may write.

use std::path::{Path, PathBuf};

use helve_core::{ErrorKind, ToolError};

/// Directories that are the system's own: neither they nor anything in them is a project.
const SYSTEM: &[&str] =
    &["/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys"];
/// Directories that hold projects and more: they themselves are none.
const HOLDERS: &[&str] = &[
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/root",
    "/run",
    "/srv",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/local",
    "/usr/sbin",
    "/usr/share",
    "/var",
    "/var/lib",
    "/var/log",
    "/var/tmp",
];

/// The workspace's real path, or why it cannot be one. `guarded` are the files that only the owner may write.
pub fn check_workspace(
    workspace: &Path,
    helve_home: &Path,
    guarded: &[PathBuf],
) -> Result<PathBuf, ToolError> {
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
    if SYSTEM.iter().any(|dir| real.starts_with(dir)) || HOLDERS.iter().any(|dir| real == Path::new(dir)) {
        return Err(refused(&real, "it is a directory of the system"));
    }
    let user_home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    let a_home = real.parent() == Some(Path::new("/home"));
    if a_home || user_home.is_some_and(|home| home.starts_with(&real)) {
        return Err(refused(&real, "it is a home directory or holds one"));
    }
    match holds_own(&real, helve_home, guarded) {
        Some(why) => Err(refused(&real, &why)),
        None => Ok(real),
    }
}

/// Whether commands may write a file or directory besides the workspace: not where Helve keeps its own.
pub fn check_writable(path: &Path, helve_home: &Path, guarded: &[PathBuf]) -> Result<(), ToolError> {
    let Some(why) = holds_own(&would_be(path), helve_home, guarded) else { return Ok(()) };
    let message = format!("{} cannot be writable for commands: {why}.", path.display());
    Err(ToolError::new(ErrorKind::Blocked, message).hint("Name a smaller directory."))
}

/// Whether file tools may use a directory besides the workspace: not where Helve keeps its own.
pub(crate) fn check_root(path: &Path, helve_home: &Path, guarded: &[PathBuf]) -> Result<(), ToolError> {
    let Some(why) = holds_own(&would_be(path), helve_home, guarded) else { return Ok(()) };
    let message = format!("{} cannot be open to file tools: {why}.", path.display());
    Err(ToolError::new(ErrorKind::Blocked, message)
        .hint("Name a smaller directory in files.read_only or files.read_write."))
}

/// What of Helve's own a real path holds, as a phrase.
fn holds_own(real: &Path, helve_home: &Path, guarded: &[PathBuf]) -> Option<String> {
    let state = would_be(helve_home);
    if state.starts_with(real) || real.starts_with(&state) {
        return Some("it holds Helve's own state".to_owned());
    }
    let file = guarded.iter().find(|file| would_be(file).starts_with(real))?;
    Some(format!("it holds {}, which only the owner may write", file.display()))
}

/// Where a path is or would be: its nearest existing parent resolved, the rest behind it.
fn would_be(path: &Path) -> PathBuf {
    let resolved = path.ancestors().find_map(|dir| {
        let rest = path.strip_prefix(dir).ok()?;
        dir.canonicalize().ok().map(|real| real.join(rest))
    });
    resolved.unwrap_or_else(|| path.to_owned())
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
        let why = |path: &Path| check_workspace(path, &state, &[]).unwrap_err().message;
        assert!(why(Path::new("/")).contains("root of the file system"));
        assert!(why(&root.join("ws")).contains("own state"));
        assert!(why(&root.join("ws/state/inner")).contains("own state"));
        assert!(why(&root.join("file")).contains("not a directory"));
        assert!(why(&root.join("gone")).contains("cannot be opened"));
        assert!(check_workspace(&root.join("ws"), &root.join("elsewhere/state"), &[]).is_ok());
    }

    #[test]
    fn what_configures_helve_cannot_lie_in_a_workspace_even_before_it_exists() {
        let dir = tempfile::tempdir().unwrap();
        let guarded = [dir.path().join("ws/conf/helve.toml")];
        std::fs::create_dir_all(dir.path().join("ws")).unwrap();
        let error =
            check_workspace(&dir.path().join("ws"), Path::new("/nowhere/state"), &guarded).unwrap_err();
        assert!(error.message.contains("only the owner may write"), "{error}");
    }

    #[test]
    fn what_is_helves_own_is_never_writable() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join("state")).unwrap();
        let (state, guarded) = (root.join("state"), [root.join("conf/helve.toml")]);
        let refused = |path: &str| check_writable(&root.join(path), &state, &guarded).is_err();
        assert_eq!(
            ["", "state", "state/x", "conf", "conf/helve.toml", "other", "conf/x"].map(refused),
            [true, true, true, true, true, false, false]
        );
    }

    #[test]
    fn homes_and_system_directories_are_refused() {
        for dir in ["/etc", "/etc/ssl", "/proc/self", "/usr", "/var", "/home", "/tmp"] {
            if Path::new(dir).is_dir() {
                assert!(check_workspace(Path::new(dir), Path::new("/nowhere/state"), &[]).is_err(), "{dir}");
            }
        }
        if let Some(home) = std::env::home_dir().filter(|home| home.is_dir()) {
            assert!(check_workspace(&home, Path::new("/nowhere/state"), &[]).is_err());
        }
    }

    #[test]
    fn a_link_to_a_forbidden_directory_is_refused_too() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/", &link).unwrap();
        assert!(check_workspace(&link, Path::new("/nowhere/state"), &[]).is_err());
    }
}
