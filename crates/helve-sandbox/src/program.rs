//! What a job executes: its words, and where a program of a bare name lies. Nothing is started here.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use helve_core::{ErrorKind, ShellJob, ToolError, View, Work};

use crate::call::Attached;

/// The program of a job and its arguments.
pub(crate) fn words(view: &View, job: &ShellJob) -> Vec<OsString> {
    match &job.work {
        Work::Shell(text) => vec![view.shell.clone().into(), "-c".into(), text.into()],
        Work::Program(words) => words.iter().map(OsString::from).collect(),
    }
}

/// The error for a job without a program.
pub(crate) fn nothing_to_run() -> ToolError {
    ToolError::new(ErrorKind::InvalidParams, "There is no program to run.").hint("Name a program.")
}

/// Refuses a program of a bare name that is in no directory of the view's `PATH`. Whether one that is there can be seen
/// and executed inside, the sandbox finds out.
pub(crate) fn check_exists(view: &View, words: &[OsString]) -> Result<(), ToolError> {
    let name = words.first().ok_or_else(nothing_to_run)?;
    let bare = !name.as_bytes().contains(&b'/');
    if bare && !search_path(view).any(|folder| folder.join(name).exists()) {
        return Err(not_found(view, name));
    }
    Ok(())
}

/// The error for a program that the sandbox could not execute, by what can be seen of it from outside.
pub(crate) fn not_executed(view: &View, program: &Attached<'_>) -> ToolError {
    let Some(name) = program.words.first() else { return nothing_to_run() };
    let start = view.workspace.join(program.working_dir.unwrap_or_default());
    let exists = match name.as_bytes().contains(&b'/') {
        true => start.join(name).exists(),
        false => search_path(view).any(|folder| folder.join(name).exists()),
    };
    if !exists {
        return not_found(view, name);
    }
    ToolError::failed(format!("The program {} cannot be executed in the sandbox.", name.display()))
        .hint("Check that it is executable and that the view shows it and its interpreter.")
}

/// The error for a program that is not there.
pub(crate) fn not_found(view: &View, name: &OsStr) -> ToolError {
    let shown = name.display();
    if name.as_bytes().contains(&b'/') {
        return ToolError::not_found(format!("There is no program {shown} in the sandbox."))
            .hint("Name one that is there, or show its directory in the view.");
    }
    let path = view.env.get("PATH").map_or("", String::as_str);
    ToolError::not_found(format!("There is no program {shown} in the sandbox, whose PATH is {path}."))
        .hint("Install it, give its absolute path, or show its directory in the view.")
}

fn search_path(view: &View) -> impl Iterator<Item = &Path> {
    let list = view.env.get("PATH").map_or("", String::as_str);
    list.split(':').map(Path::new).filter(|folder| folder.is_absolute())
}

/// The first executable regular file called `name` in a `PATH`-like list, relative entries and those that
/// `skip` names left out.
pub(crate) fn find(name: &str, list: &OsStr, skip: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    list.as_bytes()
        .split(|byte| *byte == b':')
        .map(|entry| Path::new(OsStr::from_bytes(entry)))
        .filter(|folder| folder.is_absolute() && !skip(folder))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn takes_the_first_that_can_be_executed_and_skips_what_it_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str, mode: u32| {
            let file = folder.path().join(name).join("tool");
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            file
        };
        place("plain", 0o644);
        let planted = place("planted", 0o755);
        let good = place("good", 0o755);
        let list = ["", "relative", "plain", "planted", "good"].map(|name| match name {
            "" | "relative" => name.to_owned(),
            _ => folder.path().join(name).display().to_string(),
        });
        let list = list.join(":");
        assert_eq!(find("tool", OsStr::new(&list), |_| false), Some(planted.clone()));
        let skip = |folder: &Path| folder == planted.parent().unwrap();
        assert_eq!(find("tool", OsStr::new(&list), skip), Some(good));
        assert_eq!(find("absent", OsStr::new(&list), |_| false), None);
    }
}
