//! Git's index over a layer: a mere look in between changes nothing that counts, and what somebody staged is never overwritten.

use pretty_assertions::assert_eq;

use super::*;

fn git(place: &Place, words: &[&str]) -> String {
    let config = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"];
    let ran = Command::new("git").args(config).args(words).current_dir(place.workspace()).output().unwrap();
    assert!(ran.status.success(), "{words:?} {ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

/// A repository with so many files.
fn repository(files: usize) -> Place {
    let place = Place::new();
    git(&place, &["init", "-q"]);
    for number in 0..files {
        put(&place, &format!("src/a-file-with-number-{number}"), "one\n");
    }
    put(&place, "looked", "one\n");
    git(&place, &["add", "."]);
    git(&place, &["commit", "-qm", "first"]);
    place
}

fn index(place: &Place) -> Vec<u8> {
    fs::read(place.workspace().join(".git/index")).unwrap()
}

/// Lets git write its index anew: a file is another one that holds the same.
fn look(place: &Place) {
    let before = index(place);
    let (file, copy) = (place.workspace().join("looked"), place.workspace().join("copy"));
    fs::copy(&file, &copy).unwrap();
    fs::rename(&copy, &file).unwrap();
    git(place, &["status"]);
    assert!(index(place) != before, "git has not written its index");
}

const STAGE: &str = "echo two > src/a-file-with-number-0; git add src";

#[test]
fn a_commit_is_made_although_git_has_refreshed_its_index_since() {
    if !layers_work() || !is_installed("git") {
        println!("skipped: no layers, or no git");
        return;
    }
    // The index of few files waits with the record, that of many in a file of its own.
    for files in [2, 600] {
        for in_exec in [false, true] {
            let place = repository(files);
            let call = match in_exec {
                true => id(&preview(&place, STAGE)),
                false => dry_run(&place, STAGE)["call"].as_str().unwrap().to_owned(),
            };
            look(&place);
            let before = tree(&place.workspace());
            let committed = helve(&place, &["commit", &call]);
            assert_eq!(committed.code, 0, "{files}: {committed:?}");
            assert_eq!(git(&place, &["diff", "--cached", "--name-only"]), "src/a-file-with-number-0\n");
            let undone = helve(&place, &["undo"]);
            assert_eq!(undone.code, 0, "{files}: {undone:?}");
            assert_eq!(tree(&place.workspace()), before, "{files}");
        }
    }
}

#[test]
fn what_was_staged_since_is_a_conflict() {
    if !layers_work() || !is_installed("git") {
        println!("skipped: no layers, or no git");
        return;
    }
    type Act = fn(&Place);
    let acts: [(&str, Act); 5] = [
        ("content", |place| {
            place.put("looked", "mine\n");
            git(place, &["add", "looked"]);
        }),
        ("new", |place| {
            place.put("mine", "mine\n");
            git(place, &["add", "mine"]);
        }),
        ("gone", |place| drop(git(place, &["rm", "-q", "--cached", "looked"]))),
        ("bits", |place| {
            look(place);
            let index = place.workspace().join(".git/index");
            fs::set_permissions(index, fs::Permissions::from_mode(0o600)).unwrap();
        }),
        ("none", |place| place.put(".git/index", "")),
    ];
    for (name, act) in acts {
        let place = repository(2);
        let held = dry_run(&place, STAGE);
        act(&place);
        let before = tree(&place.workspace());
        let refused = helve(&place, &["commit", held["call"].as_str().unwrap(), "--json"]);
        let result: Value = serde_json::from_str(&refused.stdout).unwrap();
        assert_eq!(result["error"]["kind"], json!("conflict"), "{name}: {refused:?}");
        assert!(result["error"]["message"].as_str().unwrap().contains(".git/index"), "{name}: {result}");
        assert_eq!(tree(&place.workspace()), before, "{name}");
    }
}
