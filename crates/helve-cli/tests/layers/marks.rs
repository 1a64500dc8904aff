//! Extended attributes and access control lists of what commands change over a layer.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use pretty_assertions::assert_eq;
use rustix::fs::XattrFlags;
use serde_json::{Value, json};

use super::{checkpoint, dry_run, helve, id, layers_work, preview, put, tree};
use crate::support::Place;

pub(crate) const ACCESS_LIST: &str = "system.posix_acl_access";
pub(crate) const DEFAULT_LIST: &str = "system.posix_acl_default";

/// The attributes of a path that count, as text.
pub(crate) fn of(path: &Path) -> String {
    let mut list = vec![0; 64 << 10];
    let len = rustix::fs::listxattr(path, &mut list[..]).unwrap_or_default();
    let names = list[..len].split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    let counts = |name: &&str| name.starts_with("user.") || [ACCESS_LIST, DEFAULT_LIST].contains(name);
    let mut all: Vec<String> = names.filter(counts).map(|name| one(path, name)).collect();
    all.sort();
    all.concat()
}

fn one(path: &Path, name: &str) -> String {
    let mut value = vec![0; 64 << 10];
    let len = rustix::fs::getxattr(path, name, &mut value[..]).unwrap();
    format!(" {name}={}", value[..len].escape_ascii())
}

/// Gives an attribute. Whether it could: not every file system has such.
pub(crate) fn give(path: &Path, name: &str, value: &[u8]) -> bool {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).is_ok()
}

/// A list that names the user of the test besides; what is made in a directory may be entered.
pub(crate) fn list() -> Vec<u8> {
    let one = |kind: u16, may: u16, id: u32| {
        [&kind.to_le_bytes()[..], &may.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let (own, nobody) = (rustix::process::geteuid().as_raw(), u32::MAX);
    let entries =
        [one(1, 7, nobody), one(2, 4, own), one(4, 4, nobody), one(16, 7, nobody), one(32, 0, nobody)];
    [&2_u32.to_le_bytes()[..], &entries.concat()].concat()
}

/// Gives and takes attributes: `PATH NAME=VALUE`, `PATH -NAME`, `PATH NAME@FILE`.
const TOOL: &str = r"import os, sys
path = sys.argv[1]
for word in sys.argv[2:]:
    if word[0] == '-':
        os.removexattr(path, word[1:])
    elif '@' in word:
        name, source = word.split('@')
        os.setxattr(path, name, open(source, 'rb').read())
    else:
        name, value = word.split('=')
        os.setxattr(path, name, value.encode())
";

const PYTHON: &str = "/usr/bin/python3";

/// A place in which commands can change attributes; none where they cannot.
fn place() -> Option<Place> {
    if !layers_work() {
        return None;
    }
    let place = Place::new();
    put(&place, "attr.py", TOOL);
    fs::write(place.workspace().join("list"), list()).unwrap();
    for (path, mode) in
        [("a", 0o644), ("b", 0o640), ("c", 0o644), ("dir/x", 0o644), ("gone/y", 0o600), ("shut", 0o444)]
    {
        put(&place, path, &format!("{path}\n"));
        fs::set_permissions(place.workspace().join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    let ws = place.workspace();
    // One that its owner may not write takes no attributes of his.
    fs::set_permissions(ws.join("shut"), fs::Permissions::from_mode(0o644)).unwrap();
    let marked = give(&ws.join("b"), "user.goes", b"1")
        && give(&ws.join("b"), "user.stays", b"1")
        && give(&ws.join("c"), ACCESS_LIST, &list())
        && give(&ws.join("gone/y"), "user.gone", b"1")
        && give(&ws.join("gone"), DEFAULT_LIST, &list())
        && give(&ws.join("shut"), "user.shut", b"1");
    fs::set_permissions(ws.join("shut"), fs::Permissions::from_mode(0o444)).unwrap();
    if !marked {
        println!("skipped: no extended attributes in {}", ws.display());
        return None;
    }
    if !Path::new(PYTHON).exists() {
        println!("skipped: there is no {PYTHON}");
        return None;
    }
    Some(place)
}

/// Attributes alone, with a change of content, of directories, of what goes, comes and moves.
const MARKING: &str = "M='/usr/bin/python3 attr.py'; $M a user.note=new; $M b -user.goes; echo more >> b; \
    $M dir user.dir=1 system.posix_acl_default@list; echo new > dir/n; mkdir dir/sub; mv c moved; rm -r gone; \
    chmod u+w shut; $M shut user.shut=2 system.posix_acl_access@list; chmod u-w shut";

#[test]
fn attributes_are_listed_committed_as_by_a_direct_run_and_undone() {
    let (Some(place), Some(direct)) = (place(), place()) else { return };
    let before = tree(&place.workspace());
    let held = dry_run(&place, MARKING);
    assert_eq!(tree(&place.workspace()), before);
    let told = |path: &str| {
        let all = held["changes"].as_array().unwrap();
        let found =
            all.iter().find(|one| one["path"] == json!(path)).unwrap_or_else(|| panic!("{path}: {held}"));
        (found["change"].as_str().unwrap().to_owned(), found["attributes"].clone())
    };
    for (path, change, attributes) in [
        ("a", "changed", json!(["user.note"])),
        ("b", "changed", json!(["user.goes"])),
        ("dir", "changed", json!([DEFAULT_LIST, "user.dir"])),
        ("dir/n", "added", json!([ACCESS_LIST])),
        ("dir/sub", "added", json!([ACCESS_LIST, DEFAULT_LIST])),
        ("gone", "deleted", Value::Null),
        ("moved", "renamed", Value::Null),
        ("shut", "changed", json!([ACCESS_LIST, "user.shut"])),
    ] {
        assert_eq!(told(path), (change.to_owned(), attributes), "{path}");
    }
    assert_eq!(held["left_out"], json!([]));
    let call = held["call"].as_str().unwrap();
    let shown = helve(&place, &["diff", call]).stdout;
    for line in [
        "\nattribute user.goes \"1\" became none\n",
        "\nattribute user.note none became \"new\"\n",
        "\nattribute user.shut \"1\" became \"2\"\n",
        "\nattribute system.posix_acl_default none became a list\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let shown: Value = serde_json::from_str(&helve(&place, &["diff", call, "--json"]).stdout).unwrap();
    let file = shown["files"].as_array().unwrap().iter().find(|file| file["path"] == json!("a")).unwrap();
    assert_eq!(file["is"]["file"]["attributes"], json!({"user.note": "bmV3"}), "{file}");
    assert_eq!((&file["was"]["file"]["attributes"], &file["changed_since"]), (&Value::Null, &json!(false)));

    let ran = direct.run(&["sandbox", "--", "sh", "-c", MARKING]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let after = tree(&direct.workspace());
    let committed = helve(&place, &["commit", call]);
    assert_eq!(committed.code, 0, "{committed:?}");
    assert_eq!(tree(&place.workspace()), after);
    let undone = helve(&place, &["undo"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(tree(&place.workspace()), before);
}

#[test]
fn attributes_of_a_checkpoint_are_undone_and_those_changed_meanwhile_are_a_conflict() {
    let Some(place) = place() else { return };
    let before = tree(&place.workspace());
    let command = "/usr/bin/python3 attr.py a user.note=new && /usr/bin/python3 attr.py b -user.goes";
    let answer = checkpoint(&place, command);
    answer.good();
    assert_eq!(of(&place.workspace().join("a")), " user.note=new");
    assert_eq!(of(&place.workspace().join("b")), " user.stays=1");
    // What somebody else has changed since is not lost.
    assert!(give(&place.workspace().join("a"), "user.mine", b"1"));
    let shown: Value =
        serde_json::from_str(&helve(&place, &["diff", &id(&answer), "--json"]).stdout).unwrap();
    let since: Vec<&Value> =
        shown["files"].as_array().unwrap().iter().map(|file| &file["changed_since"]).collect();
    assert_eq!(since, [&json!(true), &json!(false)], "{shown}");
    let refused = helve(&place, &["undo", "--json"]);
    assert!(refused.code != 0 && refused.stdout.contains("Changed since"), "{refused:?}");
    assert_eq!(of(&place.workspace().join("a")), " user.mine=1 user.note=new");
    rustix::fs::removexattr(place.workspace().join("a"), "user.mine").unwrap();
    assert_eq!(helve(&place, &["undo"]).code, 0);
    assert_eq!(tree(&place.workspace()), before);

    let answer = preview(&place, command);
    assert!(answer.good().contains("\n  changed a (attributes user.note)\n"), "{}", answer.good());
    assert_eq!(answer.result["details"]["layer"]["changes"][0]["attributes"], json!(["user.note"]));
    assert!(give(&place.workspace().join("a"), "user.mine", b"1"));
    let disturbed = tree(&place.workspace());
    let refused = helve(&place, &["commit", &id(&answer), "--json"]);
    let result: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!(result["error"]["kind"], json!("conflict"), "{refused:?}");
    assert_eq!(tree(&place.workspace()), disturbed);
    assert_eq!(place.verify().code, 0);
}

/// What is made in a workspace with a list for what is made in it has that list, over a layer too.
#[test]
fn a_new_file_begins_with_the_list_of_the_workspace() {
    let (Some(place), Some(direct)) = (place(), place()) else { return };
    for one in [&place, &direct] {
        assert!(give(&one.workspace(), DEFAULT_LIST, &list()));
    }
    let script = "echo new > new; mkdir made; echo more >> a";
    let held = dry_run(&place, script);
    assert_eq!(direct.run(&["sandbox", "--", "sh", "-c", script]).code, 0);
    assert_eq!(helve(&place, &["commit", held["call"].as_str().unwrap()]).code, 0);
    assert_eq!(tree(&place.workspace()), tree(&direct.workspace()));
    assert!(of(&place.workspace().join("new")).contains(ACCESS_LIST));
}

/// An attribute that is too large for the disk, though not for a layer in memory: nothing of what the command did is lost.
#[test]
fn what_the_disk_cannot_hold_waits_and_says_why() {
    let Some(place) = place() else { return };
    let huge = vec![b'x'; 60_000];
    if give(&place.workspace().join("c"), "user.huge", &huge) {
        println!("skipped: the file system has room for any attribute");
        return;
    }
    fs::write(place.workspace().join("huge"), &huge).unwrap();
    let before = tree(&place.workspace());
    let command = "echo more >> a; /usr/bin/python3 attr.py c user.huge@huge";
    let answer = checkpoint(&place, command);
    assert_eq!(tree(&place.workspace()), before);
    let text = answer.text();
    assert!(text.contains("its changes are NOT in the workspace") && text.contains("'user.huge'"), "{text}");
    assert!(text.contains("the file system has no room for it"), "{text}");
    assert_eq!(answer.result["details"]["layer"]["state"], json!("pending"));
    assert!(helve(&place, &["diff", &id(&answer)]).stdout.contains("+more"));
    assert_eq!(helve(&place, &["discard", &id(&answer)]).code, 0);
}

/// A workspace on a file system without attributes: the rest is taken, and the result says what is not.
#[test]
fn a_file_system_without_attributes_takes_the_rest() {
    if !layers_work() || !Path::new(PYTHON).exists() {
        return;
    }
    let place = Place::new();
    let ws = place.workspace();
    let script = format!(
        "mount -t ramfs none '{ws}' && chown 65534:65534 '{ws}' && cd '{ws}' && cp ../attr.py . && echo a > a && \
         chown 65534:65534 a attr.py && exec \"$0\" sandbox --json --dry-run -- sh -c \"$1\"",
        ws = ws.display()
    );
    fs::write(place.root().join("attr.py"), TOOL).unwrap();
    let helve = place.helve();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).arg(helve.get_program());
    command.arg("echo more >> a; /usr/bin/python3 attr.py a user.note=1").env_clear();
    command.envs(helve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    let Ok(report) = serde_json::from_str::<Value>(said.lines().last().unwrap_or_default()) else {
        println!("skipped: no file system without attributes here: {said}");
        return;
    };
    let held = &report["dry_run"];
    assert_eq!(
        (&held["changes"][0]["path"], &held["changes"][0]["attributes"]),
        (&json!("a"), &Value::Null),
        "{report}"
    );
    let why = "its extended attributes alone: the file system there cannot hold them";
    assert_eq!(held["left_out"], json!([{"path": "a", "why": why}]), "{report}");
}
