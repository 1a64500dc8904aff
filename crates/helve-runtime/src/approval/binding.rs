//! What a grant is bound to: the directory, and the content of the scripts of the workspace that a command names. A
//! script is read through an open handle of the workspace, so that no link leads out of it.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use helve_shell::analysis::{Analysis, EffectKind, Opaque, OpaqueReason, Run, Target};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};

use super::{Script, pattern};

/// The largest script that a grant can be bound to.
const MAX_BYTES: u64 = 1 << 20;
/// So many scripts of one command are bound.
const MOST: usize = 16;

/// The scripts that one run executes; none if one of them cannot be bound, and then the run can be allowed only once.
pub(crate) fn scripts(analysis: &Analysis, run: usize, cwd: &Path, workspace: &Path) -> Option<Vec<Script>> {
    let mut scripts = Vec::new();
    for path in script_paths(analysis, run, cwd)? {
        // A program outside the workspace is the system's or the owner's; what commands cannot change needs no hash.
        let Ok(below) = path.strip_prefix(workspace) else { continue };
        if scripts.len() == MOST {
            return None;
        }
        scripts.push(Script { path: below.to_str()?.to_owned(), hash: hash(workspace, below)? });
    }
    scripts.sort();
    scripts.dedup();
    Some(scripts)
}

/// The files that a run executes by path; none if there is one that is not known.
fn script_paths(analysis: &Analysis, index: usize, cwd: &Path) -> Option<Vec<PathBuf>> {
    let run = analysis.runs.get(index)?;
    let mut paths = Vec::new();
    for effect in &analysis.effects {
        if effect.kind == EffectKind::Execute && effect.run == Some(index) {
            match &effect.target {
                Target::Path { path, .. } => paths.push(path.clone()),
                _ => return None,
            }
        }
    }
    if paths.is_empty() && runs_a_script(analysis, run) {
        paths.push(named_script(run, cwd)?);
    }
    Some(paths)
}

/// Whether the command names a script. A task such as `make test` runs code of the workspace too, but names no file of
/// it; whether that can be allowed for longer is for the patterns to say.
fn runs_a_script(analysis: &Analysis, run: &Run) -> bool {
    let by_path = run.argv.first().and_then(|name| name.text()).is_some_and(|name| name.contains('/'));
    let inside = |part: &Opaque| part.span.start <= run.span.end && run.span.start <= part.span.end;
    let mut opaque = analysis.opaque.iter();
    by_path
        || (pattern::is_interpreter(run)
            && opaque.any(|part| part.reason == OpaqueReason::Script && inside(part)))
}

/// The program itself where it is named by a path, else its first argument that is no option.
fn named_script(run: &Run, cwd: &Path) -> Option<PathBuf> {
    let directory = run.directory.as_deref().unwrap_or(cwd);
    let (name, args) = run.argv.split_first()?;
    let name = name.text()?;
    if name.contains('/') {
        return Some(normal(&directory.join(name)));
    }
    let first = args.iter().find(|arg| !arg.may_be_option())?;
    Some(normal(&directory.join(first.text()?)))
}

/// A path in its normal form by its text alone.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// The hash of a regular file below the workspace; none if it cannot be read as one.
fn hash(workspace: &Path, below: &Path) -> Option<String> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let workspace = rustix::fs::openat(CWD, workspace, directory, Mode::empty()).ok()?;
    // NONBLOCK keeps a pipe from holding the open until somebody writes to it.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = rustix::fs::openat2(&workspace, below, flags, Mode::empty(), within).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut content = Vec::new();
    std::fs::File::from(file).take(MAX_BYTES + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= MAX_BYTES).then(|| blake3::hash(&content).to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_below_the_workspace_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("w");
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(dir.path().join("outside"), "x").unwrap();
        std::fs::write(workspace.join("in.sh"), "x").unwrap();
        std::fs::write(workspace.join("large"), vec![b'x'; (MAX_BYTES + 1) as usize]).unwrap();
        std::os::unix::fs::symlink("in.sh", workspace.join("link")).unwrap();
        std::os::unix::fs::symlink("../outside", workspace.join("out")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", workspace.join("far")).unwrap();
        let hash = |name: &str| hash(&workspace, Path::new(name));
        assert_eq!(hash("in.sh"), Some(blake3::hash(b"x").to_hex().to_string()));
        assert_eq!(hash("link"), hash("in.sh"));
        for bad in ["out", "far", "large", ".", "gone", "../outside"] {
            assert_eq!(hash(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_path_is_made_normal_by_its_text() {
        assert_eq!(normal(Path::new("/w/./a/../b")), Path::new("/w/b"));
        assert_eq!(normal(Path::new("/../../x")), Path::new("/x"));
    }
}
