//! A file that went comes back with what it had, and where that cannot be, nobody may do more with it than before. One that is
//! replaced takes no more room than before.

use helve_core::files::{ACCESS_LIST, Is, Owner, Was};
use pretty_assertions::assert_eq;
use rustix::fs::XattrFlags;

use super::*;
use crate::attributes::read;

/// What is told of files that go, and of those that come back.
#[derive(Default)]
struct Told {
    owned: Mutex<Vec<(String, Owner)>>,
    attributes: Mutex<Attributes>,
    lacks: Mutex<Vec<String>>,
}

impl UndoSink for Told {
    fn before(&self, _path: &str, was: Was<'_>, _will_be: &Is) -> Result<(), ToolError> {
        if let Was::File { attributes, .. } = was {
            *self.attributes.lock().unwrap() = attributes;
        }
        Ok(())
    }

    fn owned(&self, path: &str, owner: Owner) {
        self.owned.lock().unwrap().push((path.to_owned(), owner));
    }

    fn lacks(&self, path: &str, what: &str) {
        self.lacks.lock().unwrap().push(format!("{path}: {what}"));
    }

    fn ready(&self) -> Result<(), ToolError> {
        Ok(())
    }

    fn done(&self, _happened: bool) {}
}

/// A list with which user 1000 reads and writes, the group reads, and others do nothing; its mask is `rw-`.
fn list() -> Vec<u8> {
    let one = |kind: u16, may: u16, id: u32| {
        [&kind.to_le_bytes()[..], &may.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let nobody = u32::MAX;
    let entries =
        [one(1, 6, nobody), one(2, 6, 1000), one(4, 4, nobody), one(16, 6, nobody), one(32, 0, nobody)];
    [&2_u32.to_le_bytes()[..], &entries.concat()].concat()
}

fn give(path: &Path, name: &str, value: &[u8]) -> bool {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).is_ok()
}

fn attributes(path: &Path) -> Attributes {
    read(fs::File::open(path).unwrap(), None).unwrap()
}

/// Bits, owner and group.
fn bits(path: &Path) -> (u32, u32, u32) {
    let data = fs::metadata(path).unwrap();
    (data.mode() & 0o7777, data.uid(), data.gid())
}

/// Removes a file and puts it back by what was told; the first of `faults` system calls fails each time.
fn there_and_back(scene: &Scene, fault: Option<(&'static str, Errno)>) -> Vec<String> {
    let told = Arc::new(Told::default());
    let workspace =
        open_with(&scene.ws(), scene.rules.clone(), Options { fsync: false, janitor: None }).unwrap();
    let files = workspace.scoped(FilesScope { undo: Some(told.clone()), ..FilesScope::default() });
    let mode = bits(&scene.ws().join("a.txt")).0;
    commit(&*files, vec![change("a.txt", Act::Remove)]).unwrap();
    let owned = told.owned.lock().unwrap().clone();
    let [(path, owner)] = owned.as_slice() else { panic!("{owned:?}") };
    assert_eq!(path, "a.txt");
    let attributes = told.attributes.lock().unwrap().clone();
    if let Some((call, error)) = fault {
        *workspace.0.sys.fault.lock().unwrap() =
            Some(Box::new(move |name| if name == call { Err(error) } else { Ok(()) }));
    }
    let act = Act::Restore { content: b"old\n".to_vec(), mode, attributes, owner: Some(*owner) };
    commit(&*files, vec![change("a.txt", act)]).unwrap();
    told.lacks.lock().unwrap().clone()
}

#[test]
fn a_file_that_went_comes_back_with_its_attributes_and_its_owner() {
    let scene = Scene::new();
    let path = scene.ws().join("a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(&path, Some(1234), Some(2345)).unwrap();
    }
    if !give(&path, "user.k", b"v") || !give(&path, ACCESS_LIST, &list()) {
        return;
    }
    let before = (bits(&path), attributes(&path));
    assert_eq!(there_and_back(&scene, None), Vec::<String>::new());
    assert_eq!((bits(&path), attributes(&path)), before);
    // Only the group can be given, or nothing.
    if is_root {
        assert_eq!(there_and_back(&scene, Some(("chown", Errno::PERM))), ["a.txt: owner and group"]);
        assert_eq!(bits(&path), (0o600, 0, 0));
        assert_eq!(attributes(&path).get(ACCESS_LIST), None);
        assert_eq!(attributes(&path).get("user.k"), Some(&b"v"[..]));
    }
}

#[test]
fn a_file_system_without_attributes_gives_nobody_more_than_before() {
    let scene = Scene::new();
    let path = scene.ws().join("a.txt");
    if !give(&path, "user.k", b"v") || !give(&path, ACCESS_LIST, &list()) {
        return;
    }
    assert_eq!(bits(&path).0, 0o660);
    let lacks = there_and_back(&scene, Some(("setxattr", Errno::OPNOTSUPP)));
    assert_eq!(lacks.len(), 2, "{lacks:?}");
    assert!(lacks[1].starts_with("a.txt: system.posix_acl_access: "), "{lacks:?}");
    assert_eq!((bits(&path).0, attributes(&path)), (0o600, Attributes::NONE));
    // Without a list the bits stay as they are.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
    assert_eq!(there_and_back(&scene, None), Vec::<String>::new());
    assert_eq!(bits(&path).0, 0o664);
}

#[test]
fn a_file_with_holes_keeps_them() {
    const LEN: usize = 8 << 20;
    let scene = Scene::new();
    let path = scene.ws().join("a.txt");
    let file = fs::File::create(&path).unwrap();
    file.set_len(LEN as u64).unwrap();
    std::os::unix::fs::FileExt::write_at(&file, b"one", 1 << 20).unwrap();
    let room = || fs::metadata(&path).unwrap().blocks() * 512;
    let before = room();
    if before > LEN as u64 / 2 {
        return;
    }
    let mut bytes = fs::read(&path).unwrap();
    bytes[5 << 20] = b'x';
    bytes[(2 << 20) - 1] = b'y';
    for _ in 0..2 {
        let act = Act::Put(Arc::new(bytes.clone()));
        commit(&*scene.files(), vec![change("a.txt", act)]).unwrap();
        assert!(fs::read(&path).unwrap() == bytes);
        assert!(room() <= before + (256 << 10), "{} became {}", before, room());
        // It may also end with what is no hole, or be shorter than before.
        bytes.truncate(LEN - 1);
        bytes[LEN - 2] = b'z';
    }
}
