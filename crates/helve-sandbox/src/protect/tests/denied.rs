//! What nobody may read: hidden by mounts, never remembered, never taken away.

use std::fs;
use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;

use super::{Scene, first_and_later, show};

#[test]
fn what_nobody_may_read_is_hidden_from_the_start_and_not_taken_away() {
    let files =
        [(".env", "mine"), ("a/key.PEM", "x"), ("vault/x", "x"), ("sample/.env", "x"), ("vault/y.pem", "x")];
    first_and_later(&files, true, |scene| {
        let list = [".env (hidden)", "a (pin)", "a/key.PEM (hidden)", "vault (hidden)"];
        assert_eq!(scene.keeper.before().map(|_| ()).unwrap(), ());
        let guarded: Vec<String> = scene.keeper.guarded().into_iter().map(show).collect();
        assert_eq!(guarded, list);
        assert_eq!(scene.after(), []);
        // What a command makes stays, and is hidden from the next.
        assert_eq!(scene.call(|scene| scene.write("b/.env", "theirs")), []);
        assert_eq!(scene.read("b/.env").as_deref(), Some("theirs"));
        let mut list = list.map(str::to_owned).to_vec();
        list.splice(3..3, ["b (pin)".to_owned(), "b/.env (hidden)".to_owned()]);
        assert_eq!(scene.before(), Some(list));
        assert_eq!(scene.after(), []);
        // One that the owner takes away is hidden no longer.
        fs::remove_file(scene.path("b/.env")).unwrap();
        assert_eq!(scene.before().map(|list| list.len()), Some(4));
        assert_eq!(scene.after(), []);
    });
}

#[test]
fn a_link_with_a_denied_name_hides_what_it_leads_to() {
    let scene = Scene::new(&[("conf/prod", "secret")], true);
    symlink("conf/prod", scene.path(".env")).unwrap();
    assert_eq!(scene.before(), Some(vec!["conf (pin)".to_owned(), "conf/prod (hidden)".to_owned()]));
    assert_eq!(scene.after(), []);
}

#[test]
fn without_mounts_nothing_can_be_hidden_and_no_call_begins() {
    let scene = Scene::new(&[(".env", "mine")], false);
    assert!(scene.keeper.before().unwrap_err().to_string().contains("cannot hide .env"));
    fs::remove_file(scene.path(".env")).unwrap();
    assert_eq!(scene.call(|_| {}), []);
}
