//! Random commits: the workspace on disk, the one in memory, and a naive model must agree.

use std::collections::BTreeMap;

use helve_core::files::{
    Act, Attributes, Change, Changed, ContentId, Expect, FilesBridge, FilesScope, PathRules,
};
use helve_core::{ErrorKind, ToolError};
use proptest::prelude::*;

use super::{Scene, names, wait};
use crate::commit::id_of;
use crate::host::{Options, open_with};
use crate::memory::memory;

/// Paths that collide as files and directories.
fn path() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a", "b", "a/x", "a/y", "b/x", "c/d/e", "c/d", "c", "./b", "a/../b", "c/d/../f",
    ])
    .prop_map(str::to_owned)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![&b""[..], b"1", b"22", b"333"]).prop_map(<[u8]>::to_vec)
}

fn change() -> impl Strategy<Value = Change> {
    let act = prop_oneof![
        4 => bytes().prop_map(|bytes| Act::Put(bytes.into())),
        1 => bytes().prop_map(|content| Act::Restore { content, mode: 0o640, attributes: Attributes::NONE, owner: None }),
        2 => bytes().prop_map(Act::Append),
        3 => Just(Act::Remove),
        3 => (path(), prop::option::of(bytes())).prop_map(|(to, content)| Act::Move { to, content }),
        1 => Just(Act::Mkdirp),
    ];
    let expect = prop_oneof![
        6 => Just(Expect::Any),
        1 => Just(Expect::Absent),
        1 => bytes().prop_map(|bytes| Expect::Content(id_of(&bytes))),
    ];
    (path(), act, expect).prop_map(|(path, act, expect)| Change { path, act, expect })
}

/// A tree in the simplest way: each change is done at once, to a copy.
#[derive(Clone, Default, PartialEq, Debug)]
struct Model(BTreeMap<String, Option<Vec<u8>>>);

impl Model {
    /// The paths of a change must be known after `.` and `..` are gone; none where one leaves what is no directory.
    fn resolve(before: &Model, path: &str) -> Option<String> {
        let mut at: Vec<&str> = Vec::new();
        for part in path.split('/') {
            match part {
                "." => {}
                ".." => {
                    before.0.get(&at.join("/"))?.is_none().then_some(())?;
                    at.pop()?;
                }
                part => at.push(part),
            }
        }
        Some(at.join("/"))
    }

    fn id(&self, path: &str) -> Option<Option<ContentId>> {
        self.0.get(path).map(|node| node.as_ref().map(|bytes| id_of(bytes)))
    }

    fn make_dirs(&mut self, before: &Model, path: &str) -> Option<()> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            match self.0.get(&path[..end]) {
                Some(None) => {}
                Some(Some(_)) => return None,
                // What was a file does not become a directory in the same commit.
                None if matches!(before.0.get(&path[..end]), Some(Some(_))) => return None,
                None => {
                    self.0.insert(path[..end].to_owned(), None);
                }
            }
        }
        Some(())
    }

    fn put(&mut self, before: &Model, path: &str, bytes: Vec<u8>) -> Option<()> {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.make_dirs(before, parent)?;
        }
        let now_dir = matches!(self.0.get(path), Some(None));
        let was_dir = matches!(before.0.get(path), Some(None));
        if now_dir || was_dir {
            return None;
        }
        self.0.insert(path.to_owned(), Some(bytes));
        Some(())
    }

    fn take(&mut self, before: &Model, change: &Change) -> Option<()> {
        let path = Model::resolve(before, &change.path)?;
        match &change.expect {
            Expect::Absent if self.0.contains_key(&path) => return None,
            Expect::Content(id) if self.id(&path) != Some(Some(id.clone())) => return None,
            _ => {}
        }
        match &change.act {
            Act::Put(bytes) => self.put(before, &path, bytes.to_vec()),
            Act::Restore { content: bytes, .. } => self.put(before, &path, bytes.clone()),
            Act::Append(bytes) => {
                let mut whole = match self.0.get(&path) {
                    Some(Some(old)) => old.clone(),
                    _ => Vec::new(),
                };
                whole.extend_from_slice(bytes);
                self.put(before, &path, whole)
            }
            Act::Remove => {
                let below = format!("{path}/");
                if self.0.keys().any(|one| one.starts_with(&below)) {
                    return None;
                }
                self.0.remove(&path).map(drop)
            }
            Act::Move { to, content } => {
                let old = self.0.get(&path)?.clone()?;
                let to = Model::resolve(before, to)?;
                self.0.remove(&path);
                if self.0.contains_key(&to) {
                    return None;
                }
                self.put(before, &to, content.clone().unwrap_or(old))
            }
            Act::Mkdirp => self.make_dirs(before, &path),
        }
    }
}

fn on_disk(dir: &std::path::Path) -> Model {
    let mut model = Model::default();
    for name in names(dir) {
        let path = dir.join(&name);
        let node = if path.is_dir() { None } else { Some(std::fs::read(path).unwrap()) };
        model.0.insert(name, node);
    }
    model
}

/// What is told of a commit. Which of its entries a full directory is refused for is the file system's choice.
fn told(outcome: &Result<Vec<Changed>, ToolError>) -> Result<&[Changed], (ErrorKind, &str)> {
    let cut = |message| str::split_once(message, " is not empty: ").map_or(message, |(before, _)| before);
    outcome.as_deref().map_err(|error| (error.kind, cut(&error.message)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn disk_memory_and_a_naive_model_agree(
        commits in prop::collection::vec(prop::collection::vec(change(), 1..5), 1..8)
    ) {
        let scene = Scene::new();
        let empty = scene.dir.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        let options = Options { fsync: false, janitor: None };
        let disk = open_with(&empty, PathRules::default(), options).unwrap().scoped(FilesScope::default());
        let memory = memory(BTreeMap::new(), PathRules::default()).unwrap().scoped(FilesScope::default());
        let mut model = Model::default();
        for changes in commits {
            let mut next = model.clone();
            let possible = changes.iter().try_for_each(|change| next.take(&model, change)).is_some();
            let rehearsed = wait(async { disk.commit(changes.clone(), true).await });
            prop_assert_eq!(&on_disk(&empty), &model);
            let one = wait(async { disk.commit(changes.clone(), false).await });
            let other = wait(async { memory.commit(changes.clone(), false).await });
            prop_assert_eq!(told(&one), told(&other));
            prop_assert_eq!(told(&one), told(&rehearsed));
            prop_assert_eq!(one.is_ok(), possible, "{:?}\n{:?}\n{:?}", one, changes, model);
            if possible {
                model = next;
            }
            prop_assert_eq!(&on_disk(&empty), &model);
        }
    }
}
