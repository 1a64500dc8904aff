//! What is granted to a command that is being learned, and what is only named.
//!
//! Granted are single files and directories that it read or ran, files that it wrote, and groups of system calls. Only named
//! are secrets by their names, everything that the configuration hides or denies, sockets, which lead to processes outside, and
//! the network. Where one file after another is wanted below a directory, or single files are not enough, the directory is granted, if it holds no
//! secret.

use std::path::{Component, Path, PathBuf};

use helve::sandbox::{DenyRead, Refused, View, ViewGrant};

/// A directory is granted for the sake of what is in it only so far below the root.
const LEAST_DEPTH: usize = 3;
/// So many entries of a directory are looked at for secrets.
const LOOKED_AT: usize = 20_000;

/// What no command is shown for its own sake: accounts, keys, and what leads to services.
const NEVER: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/boot",
    "/sys",
    "/run",
    "/var/run",
    "/var/spool/cron",
];

/// What is granted so far.
pub(super) struct Needs {
    grants: Vec<ViewGrant>,
    /// What the last run had.
    tried: Vec<ViewGrant>,
    left: Vec<(Refused, String)>,
    /// What was granted before directories were, in place of single files.
    narrow: Option<Vec<ViewGrant>>,
    secrets: Option<DenyRead>,
    workspace: PathBuf,
}

impl Needs {
    pub(super) fn new(view: &View) -> Needs {
        Needs {
            grants: Vec::new(),
            tried: Vec::new(),
            left: Vec::new(),
            narrow: None,
            secrets: DenyRead::new(&view.deny_read).ok(),
            workspace: view.workspace.clone(),
        }
    }

    pub(super) fn grants(&self) -> &[ViewGrant] {
        &self.grants
    }

    /// What was refused in the last run and is not granted, with why.
    pub(super) fn left(&self) -> &[(Refused, String)] {
        &self.left
    }

    pub(super) fn forget_left(&mut self) {
        self.left.clear();
        self.tried = self.grants.clone();
    }

    /// Goes back to what the last run had: it was enough.
    pub(super) fn keep_tried(&mut self) {
        self.grants = self.tried.clone();
    }

    pub(super) fn drop_grant(&mut self, grant: &ViewGrant) {
        self.grants.retain(|known| known != grant);
    }

    /// Takes what a run was refused. Whether something more is granted.
    pub(super) fn take(&mut self, refused: &[Refused]) -> bool {
        let before = self.grants.clone();
        for one in refused {
            match self.wanted(one) {
                Ok(grants) => grants.into_iter().for_each(|grant| self.add(grant, &before)),
                Err(why) => self.left.push((one.clone(), why)),
            }
        }
        self.grants != before
    }

    /// What is granted for one refusal, or why nothing is.
    fn wanted(&self, refused: &Refused) -> Result<Vec<ViewGrant>, String> {
        if refused.grants.is_empty() {
            return Err(refused.note.clone().unwrap_or_else(|| "nothing allows it".to_owned()));
        }
        if refused.act == "connect" {
            return Err(
                "it leads to a program outside the sandbox; open it yourself if that is meant".to_owned()
            );
        }
        for grant in &refused.grants {
            match grant {
                ViewGrant::ReadOnly(path) | ViewGrant::ReadWrite(path) => self.check(path)?,
                ViewGrant::SystemCalls(_) => {}
                ViewGrant::Limit(..) | ViewGrant::Timeout(_) => {
                    return Err("a limit; raise it yourself if that is meant".to_owned());
                }
                _ => return Err("the configuration hides it, denies it or protects it by name".to_owned()),
            }
        }
        Ok(refused.grants.clone())
    }

    fn add(&mut self, grant: ViewGrant, before: &[ViewGrant]) {
        let grant = match grant {
            ViewGrant::ReadOnly(path) => ViewGrant::ReadOnly(self.widened(path, before)),
            other => other,
        };
        if let ViewGrant::ReadOnly(path) = &grant {
            let beneath =
                |known: &ViewGrant| matches!(known, ViewGrant::ReadOnly(one) if one.starts_with(path));
            let above =
                |known: &ViewGrant| matches!(known, ViewGrant::ReadOnly(one) if path.starts_with(one));
            if self.grants.iter().any(above) {
                return;
            }
            self.grants.retain(|known| !beneath(known));
        }
        if !self.grants.contains(&grant) {
            self.grants.push(grant);
        }
    }

    /// The directory that holds this path and one that an earlier run was granted, if it is small and holds no secret.
    fn widened(&self, path: PathBuf, before: &[ViewGrant]) -> PathBuf {
        let shared = before.iter().filter_map(|grant| match grant {
            ViewGrant::ReadOnly(known) => Some(common(known, &path)),
            _ => None,
        });
        let deepest = shared.max_by_key(|shared| depth(shared)).filter(|shared| depth(shared) >= LEAST_DEPTH);
        match deepest {
            Some(shared) if !self.workspace.starts_with(&shared) && self.check(&shared).is_ok() => shared,
            _ => path,
        }
    }

    /// Grants, in place of single files, the directories that hold them, where those are small and hold no secret. Whether
    /// something more is granted. Where something is refused for good, that is why the command fails, and nothing is.
    pub(super) fn widen(&mut self) -> bool {
        if !self.left.is_empty() {
            return false;
        }
        let before = self.grants.clone();
        let mut changed = false;
        for grant in self.grants.clone() {
            let ViewGrant::ReadOnly(path) = &grant else { continue };
            let above = path.parent().filter(|_| !path.is_dir()).filter(|above| depth(above) >= LEAST_DEPTH);
            let Some(above) = above.filter(|above| !self.workspace.starts_with(above)) else { continue };
            if self.check(above).is_ok() {
                self.add(ViewGrant::ReadOnly(above.to_owned()), &[]);
                changed = true;
            }
        }
        if changed {
            self.narrow.get_or_insert(before);
        }
        changed
    }

    /// Goes back to single files: directories did not help.
    pub(super) fn narrow(&mut self) {
        if let Some(narrow) = self.narrow.take() {
            self.grants = narrow;
        }
    }

    /// Whether a path may be granted at all.
    fn check(&self, path: &Path) -> Result<(), String> {
        if NEVER.iter().any(|never| path.starts_with(never) || Path::new(never).starts_with(path)) {
            return Err("it holds accounts, keys or what leads to services".to_owned());
        }
        let Some(secrets) = &self.secrets else {
            return Err("what is a secret cannot be told from files.deny_read".to_owned());
        };
        let relative = path.strip_prefix("/").unwrap_or(path);
        let is_dir = path.is_dir();
        if secrets.denies(relative, is_dir) {
            return Err("its name is one of files.deny_read".to_owned());
        }
        match is_dir.then(|| secret_in(path, secrets)).flatten() {
            None => Ok(()),
            Some(Ok(found)) => Err(format!("it holds {}, a name of files.deny_read", found.display())),
            Some(Err(())) => Err("it holds too much to be looked through for secrets".to_owned()),
        }
    }
}

/// The first entry below a directory that looks like a secret; an error where there is too much to look at.
fn secret_in(top: &Path, secrets: &DenyRead) -> Option<Result<PathBuf, ()>> {
    let (mut waiting, mut count) = (vec![top.to_owned()], 0);
    while let Some(directory) = waiting.pop() {
        // What cannot be listed here cannot be read by the command either: it is the same user.
        for entry in directory.read_dir().into_iter().flatten().flatten() {
            count += 1;
            if count > LOOKED_AT {
                return Some(Err(()));
            }
            let path = entry.path();
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if secrets.denies_entry(path.strip_prefix("/").unwrap_or(&path), is_dir) {
                return Some(Ok(path));
            }
            if is_dir {
                waiting.push(path);
            }
        }
    }
    None
}

/// What the two have in common from the root on: a directory, or one of them where it is above the other.
fn common(one: &Path, other: &Path) -> PathBuf {
    let pairs = one.components().zip(other.components());
    pairs.take_while(|(a, b)| a == b).map(|(a, _)| a).collect()
}

fn depth(path: &Path) -> usize {
    path.components().filter(|part| matches!(part, Component::Normal(_))).count()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use helve::Policy;
    use helve::sandbox::{CallGroup, RefusedBy};
    use pretty_assertions::assert_eq;

    use super::*;

    fn needs(workspace: &Path) -> Needs {
        Needs::new(&Policy::builtin().view(workspace, Path::new("/nowhere/state")))
    }

    fn refused(act: &'static str, grants: Vec<ViewGrant>) -> Refused {
        Refused { act, subject: "x".into(), rule: RefusedBy::NotShown, grants, note: None, times: 1 }
    }

    fn read(path: &Path) -> Refused {
        refused("read", vec![ViewGrant::ReadOnly(path.to_owned())])
    }

    #[test]
    fn single_files_are_granted_and_a_directory_when_one_follows_another() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for name in ["dep/src", "other"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        let mut needs = needs(&top.join("ws"));
        let (manifest, source, tool) =
            (top.join("dep/Cargo.toml"), top.join("dep/src"), top.join("other/tool"));
        assert!(needs.take(&[read(&manifest), read(&tool)]));
        assert_eq!(
            needs.grants(),
            [ViewGrant::ReadOnly(manifest.clone()), ViewGrant::ReadOnly(tool.clone())]
        );
        assert!(!needs.take(&[read(&manifest)]), "nothing new");
        assert!(needs.take(&[read(&source)]));
        assert_eq!(needs.grants(), [ViewGrant::ReadOnly(tool), ViewGrant::ReadOnly(top.join("dep"))]);
        assert!(!needs.take(&[read(&source)]), "it is in it already");
    }

    #[test]
    fn where_nothing_more_is_seen_the_directories_of_single_files_are_granted() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("dep")).unwrap();
        fs::write(top.join("dep/Cargo.toml"), "x").unwrap();
        let mut needs = needs(&top.join("ws"));
        assert!(needs.take(&[read(&top.join("dep/Cargo.toml")), read(Path::new("/etc/gitconfig"))]));
        assert!(needs.widen());
        let directory = ViewGrant::ReadOnly(top.join("dep"));
        assert_eq!(needs.grants(), [ViewGrant::ReadOnly("/etc/gitconfig".into()), directory]);
        assert!(!needs.widen(), "nothing is left that could be widened");
        needs.narrow();
        assert_eq!(needs.grants().len(), 2);
        assert!(needs.grants().contains(&ViewGrant::ReadOnly(top.join("dep/Cargo.toml"))));
        assert!(!needs.take(&[read(Path::new("/etc/shadow"))]));
        assert!(!needs.widen(), "it fails for what is never granted");
    }

    #[test]
    fn no_directory_is_granted_that_holds_a_secret_or_the_workspace() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("home/project")).unwrap();
        fs::write(top.join("home/.netrc"), "x").unwrap();
        let mut needs = needs(&top.join("ws"));
        assert!(needs.take(&[read(&top.join("home/a"))]));
        assert!(needs.take(&[read(&top.join("home/b"))]));
        let both = [ViewGrant::ReadOnly(top.join("home/a")), ViewGrant::ReadOnly(top.join("home/b"))];
        assert_eq!(needs.grants(), both);
        assert!(!needs.take(&[read(&top.join("home"))]));
        assert!(needs.left()[0].1.contains(".netrc"), "{:?}", needs.left());
    }

    #[test]
    fn secrets_sockets_limits_and_the_network_are_named_and_never_granted() {
        let mut needs = needs(Path::new("/nowhere/ws"));
        let file = |path: &str| vec![ViewGrant::ReadOnly(path.into())];
        let all = [
            refused("read", file("/nowhere/u/.ssh/id_ed25519")),
            refused("read", file("/nowhere/u/.aws/credentials")),
            refused("read", file("/etc/shadow")),
            refused("read", file("/etc")),
            refused("write", vec![ViewGrant::ReadWrite("/nowhere/u/.netrc".into())]),
            refused("connect", file("/srv/x.sock")),
            refused("connect", vec![ViewGrant::Network]),
            refused("read", vec![ViewGrant::NotHidden("/x".into()), ViewGrant::ReadOnly("/x/y".into())]),
            refused("read", vec![ViewGrant::Readable(vec!["!/.env".into()])]),
            refused("write", vec![ViewGrant::NotProtected(".git".into())]),
            refused("limit", vec![ViewGrant::Limit("exec_memory_bytes", 1)]),
            refused("system_call", Vec::new()),
        ];
        assert!(!needs.take(&all));
        assert_eq!((needs.grants().len(), needs.left().len()), (0, all.len()));
        assert!(needs.take(&[refused("system_call", vec![ViewGrant::SystemCalls(CallGroup::Ptrace)])]));
    }

    #[test]
    fn what_the_run_that_ended_well_did_not_have_is_not_needed() {
        let mut needs = needs(Path::new("/nowhere/ws"));
        assert!(needs.take(&[read(Path::new("/srv/a"))]));
        needs.forget_left();
        assert!(needs.take(&[read(Path::new("/opt/b"))]));
        needs.keep_tried();
        assert_eq!(needs.grants(), [ViewGrant::ReadOnly("/srv/a".into())]);
    }
}
