//! Files with several names over a layer: what is committed is what a direct run leaves, and an undo makes them one file again.

use pretty_assertions::assert_eq;

use super::*;

/// Gives files of the workspace other names, some in a place that commands in tests leave alone.
pub(crate) fn give(place: &Place) {
    for (path, others) in [
        ("h1", &["keep/h1"][..]),
        ("h2", &["keep/h2", "keep/deep/h2"]),
        ("h3", &["keep/h3"]),
        ("keep/in", &["keep/deep/in"]),
    ] {
        put(place, path, &format!("base of {path}\n"));
        for other in others {
            let other = place.workspace().join(other);
            fs::create_dir_all(other.parent().unwrap()).unwrap();
            fs::hard_link(place.workspace().join(path), other).unwrap();
        }
    }
}

/// What a command does to files with several names. One that edits them looks at no other name afterwards, which still holds
/// what it held over a layer, and takes no name away that it has edited, with which the edit goes.
pub(crate) fn line(dice: &mut Dice, step: u64, edits: bool) -> String {
    let names = ["h1", "h2", "h3", "h4", "keep/h5"];
    let mut one = || names[dice.roll(names.len() as u64) as usize];
    let (name, other) = (one(), one());
    match (dice.roll(7), edits) {
        // The kernel does not remember what a new name is one with, if that one goes before anybody looks at the new one.
        (0, _) => format!("ln {name} {other}; test -e {other}"),
        (1, _) => format!("cp -a {name} {other}.copy"),
        (2, _) => format!("rm -f keep/h{}", 1 + dice.roll(3)),
        (3, _) => format!("mv -nT {name} {other}"),
        (4, true) => format!("chmod 7{}{} {name}", dice.roll(8), dice.roll(8)),
        (5, true) => format!("cp --attributes-only --preserve=xattr marked {name}"),
        (_, true) => format!("echo {step} >> {name}"),
        (4, false) => format!("mv -T {name} {other}"),
        (5, false) => format!("cat {name} > new; mv new {name}"),
        (_, false) => format!("rm -f {name}"),
    }
}

/// Whether a dry run and its commit leave what a direct run does, and an undo what was there.
fn is_as_a_direct_run(script: &str) {
    let (place, direct) = (Place::new(), Place::new());
    give(&place);
    give(&direct);
    let before = tree(&place.workspace());
    let held = dry_run(&place, script);
    assert_eq!(tree(&place.workspace()), before, "{script}");
    assert_eq!(direct.run(&["sandbox", "--", "sh", "-c", script]).code, 0, "{script}");
    let call = held["call"].as_str().unwrap_or_else(|| panic!("{script}: {held}"));
    let committed = helve(&place, &["commit", call]);
    assert_eq!(committed.code, 0, "{script}: {committed:?}");
    assert_eq!(tree(&place.workspace()), tree(&direct.workspace()), "{script}: {held}");
    let undone = helve(&place, &["undo"]);
    assert_eq!(undone.code, 0, "{script}: {undone:?}");
    assert_eq!(tree(&place.workspace()), before, "{script}");
    // Undone itself, the command's work is there again.
    let list = support::json_lines(&helve(&place, &["log", "--json"]).stdout);
    let undo =
        list.iter().find(|row| row["tool"] == json!("undo") && row["can_undo"] == json!(true)).unwrap();
    assert_eq!(helve(&place, &["undo", undo["call"].as_str().unwrap()]).code, 0, "{script}");
    assert_eq!(tree(&place.workspace()), tree(&direct.workspace()), "{script}, again");
}

#[test]
fn names_of_one_file_are_committed_as_a_direct_run_leaves_them() {
    if !layers_work() {
        return;
    }
    for script in [
        "echo more >> h1",
        "echo more >> keep/deep/h2",
        "echo other > h2; chmod 700 h2",
        "chmod 600 h1",
        "mv h1 other",
        "mv h1 h2",
        "mv h1 other; echo more >> other",
        "ln h1 new; echo more >> new",
        "ln h1 new",
        "rm h1",
        "rm h2 keep/h2",
        "rm h1; echo more > h1",
        "cp h1 new; mv new h1",
        "cp h1 new; chmod 755 new; mv new h1",
        "rm -r keep; echo more >> h1",
        "echo more >> h2; rm keep/deep/h2; ln -s h2 keep/deep/h2",
        "ln -f h1 h2",
        "echo more >> h1; ln keep/h1 new",
    ] {
        is_as_a_direct_run(script);
    }
}

#[test]
fn a_command_with_a_checkpoint_keeps_names_together() {
    if !layers_work() {
        return;
    }
    let place = Place::new();
    give(&place);
    let before = tree(&place.workspace());
    checkpoint(&place, "echo more >> h1; rm keep/h3").good();
    assert_eq!(fs::read_to_string(place.workspace().join("keep/h1")).unwrap(), "base of h1\nmore\n");
    assert_eq!(fs::metadata(place.workspace().join("h1")).unwrap().nlink(), 2);
    assert_eq!(helve(&place, &["undo"]).code, 0);
    assert_eq!(tree(&place.workspace()), before);
    // A name that is another file by now is left alone, and what comes back is a file of its own.
    checkpoint(&place, "rm h3").good();
    fs::copy(place.workspace().join("keep/h3"), place.workspace().join("copy")).unwrap();
    fs::rename(place.workspace().join("copy"), place.workspace().join("keep/h3")).unwrap();
    assert_eq!(helve(&place, &["undo"]).code, 0);
    assert_eq!(fs::metadata(place.workspace().join("h3")).unwrap().nlink(), 1);
}

#[test]
fn nothing_is_written_through_a_name_at_a_protected_place_or_outside() {
    if !layers_work() {
        return;
    }
    let place = Place::new();
    put(&place, ".git/hooks/pre-commit", "hook\n");
    put(&place, "bare/HEAD", "ref: x\n");
    put(&place, "bare/config", "[core]\n");
    for dir in ["bare/objects", "bare/refs"] {
        fs::create_dir_all(place.workspace().join(dir)).unwrap();
    }
    fs::write(place.root().join("beyond"), "beyond\n").unwrap();
    for (from, to) in [(".git/hooks/pre-commit", "a"), ("bare/config", "b"), ("../beyond", "c")] {
        fs::hard_link(place.workspace().join(from), place.workspace().join(to)).unwrap();
    }
    let answer = preview(&place, "for f in a b c; do echo evil >> $f; chmod 755 $f; done");
    let told = answer.good();
    for name in ["a", "b", "c"] {
        assert!(told.contains(&format!("\n{name} had other names (hard links)")), "{told}");
    }
    let committed = helve(&place, &["commit", &id(&answer)]);
    assert_eq!(committed.code, 0, "{committed:?}");
    for (path, text) in
        [(".git/hooks/pre-commit", "hook\n"), ("bare/config", "[core]\n"), ("../beyond", "beyond\n")]
    {
        let path = place.workspace().join(path);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o111, 0, "{path:?}");
    }
    assert!(fs::read_to_string(place.workspace().join("a")).unwrap().ends_with("evil\n"));
}

#[test]
fn a_commit_is_refused_if_names_are_no_longer_those_of_one_file() {
    if !layers_work() {
        return;
    }
    let place = Place::new();
    give(&place);
    let held = dry_run(&place, "echo more >> h1");
    let (one, other) = (place.workspace().join("keep/h1"), place.workspace().join("keep/copy"));
    fs::copy(&one, &other).unwrap();
    fs::rename(&other, &one).unwrap();
    let before = tree(&place.workspace());
    let refused = helve(&place, &["commit", held["call"].as_str().unwrap(), "--json"]);
    let result: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!(result["error"]["kind"], json!("conflict"), "{refused:?}");
    assert!(result["error"]["message"].as_str().unwrap().contains("keep/h1"), "{result}");
    assert_eq!(tree(&place.workspace()), before);
}
