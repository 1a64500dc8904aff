//! Extended attributes and access control lists in a layer, and what a turn of the workspace makes of them.

use std::ffi::CString;

use helve_core::files::{ACCESS_LIST, Attributes, DEFAULT_LIST};
use pretty_assertions::assert_eq;

use super::*;

/// A list that lets one user read besides; its owner may read and write.
fn list(user: u32) -> Vec<u8> {
    let one = |kind: u16, may: u16, id: u32| {
        [&kind.to_le_bytes()[..], &may.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let nobody = u32::MAX;
    let entries =
        [one(1, 6, nobody), one(2, 4, user), one(4, 4, nobody), one(16, 4, nobody), one(32, 0, nobody)];
    [&2_u32.to_le_bytes()[..], &entries.concat()].concat()
}

/// What each change does to attributes, in words.
fn marks(read: &LayerRead) -> Vec<String> {
    let one = |change: &LayerChange| {
        format!("{}: {:?} -> {:?}", change.path, change.was.attributes(), change.is.attributes())
    };
    read.changes.iter().map(one).collect()
}

#[test]
fn attributes_are_compared_taken_over_and_taken_back() {
    let mut scene = Scene::new();
    for path in ["same", "edited", "only", "gone", "dir/inner", "replaced", "shut"] {
        scene.put(&format!("lower/{path}"), path, 0o644);
        let text = if path == "edited" { "new" } else { path };
        if path != "gone" {
            scene.put(&format!("upper/{path}"), text, 0o644);
        }
    }
    scene.put("upper/fresh/n", "n", 0o600);
    // What is made there begins with a list, and the command took it away.
    fs::create_dir(scene.lower().join("listed")).unwrap();
    scene.put("upper/listed/made/plain", "plain", 0o644);
    scene.whiteout("gone");
    let given: &[(&str, &str, &[u8])] = &[
        ("lower/same", "user.a", b"1"),
        ("upper/same", "user.a", b"1"),
        ("upper/same", "user.overlay.origin", b"of the overlay"),
        ("lower/edited", "user.a", b"1"),
        ("lower/edited", "user.b", b"1"),
        ("upper/edited", "user.b", b"\0"),
        ("lower/only", "user.a", b"1"),
        ("upper/only", "user.c", b""),
        ("lower/gone", "user.gone", b"1"),
        ("lower/gone", ACCESS_LIST, &list(1000)),
        ("upper/dir", "user.dir", b"1"),
        ("upper/dir", DEFAULT_LIST, &list(1000)),
        ("lower/replaced", ACCESS_LIST, &list(1000)),
        ("upper/fresh", "user.new", b"1"),
        ("upper/fresh/n", ACCESS_LIST, &list(1000)),
        ("upper/shut", "user.kept", b"1"),
        ("lower/listed", DEFAULT_LIST, &list(1000)),
        ("upper/listed", DEFAULT_LIST, &list(1000)),
    ];
    for (path, name, value) in given {
        if !scene.mark(path, name, value) {
            println!("skipped: {path} cannot have {name}");
            return;
        }
    }
    let lower = scene.lower();
    // A list is in the bits of a file too. One that its owner may not write gets attributes all the same.
    for (path, mode) in [("upper/replaced", 0o640), ("lower/shut", 0o444), ("upper/shut", 0o444)] {
        fs::set_permissions(scene.folder.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    let before = scene.tree();
    let read = scene.read();
    let list = format!("{:?}", Attributes::from_iter([(ACCESS_LIST, &*list(1000))]));
    let list = list.trim_matches(['{', '}']);
    let default = list.replace(ACCESS_LIST, DEFAULT_LIST);
    assert_eq!(
        marks(&read),
        [
            format!("dir: {{}} -> {{{default}, \"user.dir=1\"}}"),
            r#"edited: {"user.a=1", "user.b=1"} -> {"user.b=\\x00"}"#.to_owned(),
            r#"fresh: {} -> {"user.new=1"}"#.to_owned(),
            format!("fresh/n: {{}} -> {{{list}}}"),
            format!("gone: {{{list}, \"user.gone=1\"}} -> {{}}"),
            "listed/made: {} -> {}".to_owned(),
            "listed/made/plain: {} -> {}".to_owned(),
            r#"only: {"user.a=1"} -> {"user.c="}"#.to_owned(),
            format!("replaced: {{{list}}} -> {{}}"),
            r#"shut: {} -> {"user.kept=1"}"#.to_owned(),
        ]
    );
    assert_eq!((&read.left_out, &read.linked), (&Vec::new(), &Vec::new()));
    scene.turn(turns(&read)).unwrap();
    for change in read.changes.iter().filter(|change| change.is != Is::Absent) {
        let now = crate::attributes::read(File::open(lower.join(&change.path)).unwrap(), None).unwrap();
        assert_eq!(&now, change.is.attributes(), "{}", change.path);
    }
    scene.turn(back(&read)).unwrap();
    assert_eq!(scene.tree(), before);
}

#[test]
fn attributes_of_what_its_owner_may_not_read_are_read_from_a_layer() {
    let mut scene = Scene::new();
    scene.put("upper/a", "a", 0o644);
    if !(scene.mark("upper/a", ACCESS_LIST, &list(1000)) && scene.mark("upper/a", "user.a", b"1")) {
        println!("skipped: no attributes here");
        return;
    }
    fs::set_permissions(scene.folder.path().join("upper/a"), fs::Permissions::from_mode(0o240)).unwrap();
    let read = scene.read();
    let [LayerChange { is: Is::File { mode, attributes, .. }, .. }] = read.changes.as_slice() else {
        panic!("{read:?}");
    };
    assert_eq!((*mode, attributes.get("user.a")), (0o240, Some(&b"1"[..])));
    // The list is that of before the right to read was given.
    let owner = attributes.get(ACCESS_LIST).and_then(|list| list.get(6)).copied();
    assert_eq!(owner, Some(2));
}

#[test]
fn attributes_that_somebody_changed_meanwhile_are_a_conflict() {
    for path in ["a", "dir"] {
        let mut scene = Scene::new();
        for top in ["lower", "upper"] {
            scene.put(&format!("{top}/a"), "a", 0o644);
            scene.put(&format!("{top}/dir/b"), "b", 0o644);
        }
        if !scene.mark(&format!("upper/{path}"), "user.a", b"1") {
            println!("skipped: no attributes of users here");
            return;
        }
        let read = scene.read();
        assert_eq!(marks(&read), [format!(r#"{path}: {{}} -> {{"user.a=1"}}"#)]);
        scene.mark(&format!("lower/{path}"), "user.mine", b"1");
        let before = scene.tree();
        let error = scene.turn(turns(&read)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
        assert!(error.message.contains(&format!(": {path}.")), "{error}");
        assert_eq!(scene.tree(), before);
    }
}

#[test]
fn attributes_beyond_the_bounds_are_left_out_and_the_rest_is_taken() {
    let mut scene = Scene::new();
    scene.put("lower/below", "below", 0o644);
    scene.put("upper/below", "changed", 0o644);
    scene.put("lower/dir/x", "x", 0o644);
    scene.put("upper/dir/x", "changed", 0o644);
    scene.put("lower/above", "above", 0o644);
    scene.put("upper/above", "changed", 0o644);
    scene.put("upper/odd", "odd", 0o644);
    scene.mark("lower/above", "user.stays", b"1");
    for number in 0..=helve_core::limits::fixed::ATTRIBUTES {
        for path in ["lower/below", "lower/dir", "upper/above"] {
            let set = rustix::fs::setxattr(
                scene.folder.path().join(path),
                format!("user.{number}"),
                b"",
                XattrFlags::empty(),
            );
            if set.is_err() {
                println!("skipped: {path} cannot have so many attributes: {set:?}");
                return;
            }
        }
    }
    let odd = CString::new(&b"user.\xff"[..]).unwrap();
    rustix::fs::setxattr(scene.folder.path().join("upper/odd"), &odd, b"", XattrFlags::empty()).unwrap();
    let read = scene.read();
    assert_eq!(
        marks(&read),
        [r#"above: {"user.stays=1"} -> {"user.stays=1"}"#, "dir/x: {} -> {}", "odd: {} -> {}"]
    );
    let many = "there are more than 100, or more than 65536 bytes of them";
    let left = |path: &str, why: String| (path.to_owned(), why);
    assert_eq!(
        read.left_out,
        [
            left("above", format!("its extended attributes alone: {many}")),
            left("below", format!("its extended attributes could not be put back: {many}")),
            left("dir", format!("its extended attributes could not be put back: {many}")),
            left("odd", "its extended attributes alone: one has a name that is not UTF-8".to_owned()),
        ]
    );
    scene.turn(turns(&read)).unwrap();
    assert_eq!(fs::read_to_string(scene.lower().join("above")).unwrap(), "changed");
    assert_eq!(fs::read_to_string(scene.lower().join("below")).unwrap(), "below");
}

/// Root's commands are somebody else outside, to whom the workspace's files are shown as his own.
#[test]
fn a_list_of_the_layer_names_the_owner_below() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root's layers belong to somebody else");
        return;
    }
    let mut scene = Scene::new();
    for path in ["lower/a", "upper/a", "lower/b", "upper/b"] {
        scene.put(path, "x", 0o644);
    }
    std::os::unix::fs::chown(scene.folder.path().join("upper"), Some(4242), Some(4243)).unwrap();
    // Nothing but what is shown as the workspace's owner differs in the first one.
    let marked =
        scene.mark("lower/a", ACCESS_LIST, &list(0)) && scene.mark("upper/a", ACCESS_LIST, &list(4242));
    if !marked || !scene.mark("upper/b", ACCESS_LIST, &list(4242)) {
        println!("skipped: no access control lists here");
        return;
    }
    scene.mark("lower/b", ACCESS_LIST, &list(7));
    let read = scene.read();
    let wanted = Attributes::from_iter([(ACCESS_LIST, &*list(0))]);
    let changed: Vec<(&str, &Attributes)> =
        read.changes.iter().map(|change| (change.path.as_str(), change.is.attributes())).collect();
    assert_eq!(changed, [("b", &wanted)]);
}
