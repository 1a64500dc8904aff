//! Undoing a call gives back what was there before it, whatever the call did: random sequences of commits, undone one by
//! one, lead back through every state of the workspace, byte for byte and mode for mode.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use helve::files::{Act, Change, Expect};
use helve::{
    Access, Call, Caller, Context, ErrorKind, Lane, Output, Resource, Runtime, ToolError, ToolSpec,
    TypedTool, typed,
};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A tool that makes any commits: each list of changes is one.
struct Commit;

#[derive(Clone, Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Step {
    /// What to do.
    act: String,
    /// The path.
    path: String,
    /// The content, or where to move to.
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Args {
    /// The commits.
    commits: Vec<Vec<Step>>,
}

impl TypedTool for Commit {
    type Args = Args;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new("commit", "Makes changes to files.", parameters).lane(Lane::Files).rate_limit(None)
    }

    fn access(&self, _args: &Args) -> Access {
        Access { writes: vec![Resource::Path(".".to_owned())], ..Access::default() }
    }

    async fn run(&self, args: Args, ctx: &Context) -> Result<Output, ToolError> {
        let mut last = Ok(());
        for steps in args.commits {
            let changes = steps.into_iter().map(|Step { act, path, text }| {
                let act = match act.as_str() {
                    "put" => Act::Put(text.into_bytes().into()),
                    "append" => Act::Append(text.into_bytes()),
                    "remove" => Act::Remove,
                    "move" => Act::Move { to: text, content: None },
                    "rewrite" => Act::Move { to: text, content: Some(b"rewritten".to_vec()) },
                    _ => Act::Mkdirp,
                };
                Change { path, act, expect: Expect::Any }
            });
            last = ctx.files()?.commit(changes.collect(), false).await.map(|_| ());
        }
        last.map(|()| Output::text("done"))
    }
}

/// Everything below a directory, with modes and contents.
fn tree(dir: &Path) -> BTreeMap<String, (u32, Option<Vec<u8>>)> {
    fn gather(top: &Path, dir: &Path, found: &mut BTreeMap<String, (u32, Option<Vec<u8>>)>) {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            let content = if path.is_dir() { None } else { Some(fs::read(&path).unwrap()) };
            if path.is_dir() {
                gather(top, &path, found);
            }
            let mode = entry.metadata().unwrap().permissions().mode();
            found.insert(path.strip_prefix(top).unwrap().display().to_string(), (mode, content));
        }
    }
    let mut found = BTreeMap::new();
    gather(dir, dir, &mut found);
    found
}

/// A state directory, a workspace with two files, and a runtime.
fn scene() -> (tempfile::TempDir, Runtime) {
    let dir = tempfile::tempdir().unwrap();
    let ws = dir.path().join("ws");
    fs::create_dir_all(ws.join("d")).unwrap();
    fs::write(ws.join("a"), "a\n").unwrap();
    fs::write(ws.join("d/run"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(ws.join("d/run"), fs::Permissions::from_mode(0o751)).unwrap();
    let runtime = Runtime::builder()
        .workspace(&ws)
        .home(dir.path().join("home"))
        .session("s")
        .caller(Caller::Named("test".to_owned()))
        .register(typed(Commit))
        .build()
        .unwrap();
    (dir, runtime)
}

/// The same under a policy of the owner's, who calls.
fn scene_with(policy: &str) -> (tempfile::TempDir, Runtime) {
    let (dir, _) = scene();
    let runtime = Runtime::builder()
        .policy(helve::Policy::from_toml(policy).unwrap())
        .workspace(dir.path().join("ws"))
        .home(dir.path().join("home"))
        .register(typed(Commit))
        .build()
        .unwrap();
    (dir, runtime)
}

fn step() -> impl Strategy<Value = Step> {
    let path = || prop::sample::select(vec!["a", "b", "d/run", "d/c", "d/e/f", "g/h/i", "d", "g"]);
    let act = prop::sample::select(vec!["put", "put", "append", "remove", "move", "rewrite", "mkdirp"]);
    (act, path(), path(), "[xy\n]{0,6}").prop_map(|(act, path, to, content)| {
        let text = if matches!(act, "move" | "rewrite") { to.to_owned() } else { content };
        Step { act: act.to_owned(), path: path.to_owned(), text }
    })
}

fn calls() -> impl Strategy<Value = Vec<Vec<Vec<Step>>>> {
    let commits = prop::collection::vec(prop::collection::vec(step(), 1..4), 1..3);
    prop::collection::vec(commits, 1..7)
}

fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn undo_after_do_is_identity(calls in calls()) {
        block(async {
            let (dir, runtime) = scene();
            let ws = dir.path().join("ws");
            let mut states = vec![tree(&ws)];
            let mut made = Vec::new();
            for commits in calls {
                let before = tree(&ws);
                let result = runtime.call(Call::new("commit", json!({ "commits": commits }))).await;
                let after = tree(&ws);
                if after != before {
                    made.push(result.call.to_string());
                    states.push(after);
                }
            }
            let listed: Vec<String> =
                runtime.file_calls().unwrap().into_iter().map(|entry| entry.record.call).collect();
            let newest_first: Vec<String> = made.iter().rev().cloned().collect();
            // A call may have changed files and changed them back: it is listed, and undoing it does nothing.
            let listed: Vec<String> = listed.into_iter().filter(|call| made.contains(call)).collect();
            assert_eq!(listed, newest_first);
            for call in newest_first {
                assert_eq!(Some(&tree(&ws)), states.last());
                states.pop();
                let result = runtime.undo(&call, false).await.unwrap();
                assert!(result.ok, "{result:?}");
                assert_eq!(Some(&tree(&ws)), states.last());
            }
        });
    }
}

#[test]
fn a_file_that_a_call_turned_into_a_directory_comes_back_and_so_does_a_directory() {
    block(async {
        let (dir, runtime) = scene();
        let ws = dir.path().join("ws");
        let put = |path: &str| json!({"act": "put", "path": path, "text": "text"});
        let act = |act: &str, path: &str| json!({"act": act, "path": path, "text": ""});
        let first = json!({"commits": [[put("g"), put("t/a"), put("t/b")]]});
        assert!(runtime.call(Call::new("commit", first)).await.ok);
        let before = tree(&ws);
        let turn = json!({"commits": [
            [act("remove", "g"), act("remove", "t/a"), act("remove", "t/b"), act("remove", "t")],
            [act("mkdirp", "g/h/i"), put("t")],
        ]});
        let turned = runtime.call(Call::new("commit", turn)).await;
        assert!(turned.ok, "{turned:?}");
        fs::write(ws.join("g/h/i/mine"), "mine").unwrap();
        let after = tree(&ws);
        let refused = runtime.undo(turned.call.as_str(), false).await.unwrap();
        assert!(!refused.ok && tree(&ws) == after, "{refused:?}");
        fs::remove_file(ws.join("g/h/i/mine")).unwrap();
        let undone = runtime.undo(turned.call.as_str(), false).await.unwrap();
        assert!(undone.ok, "{undone:?}");
        assert_eq!(tree(&ws), before);
    });
}

#[test]
fn an_undo_is_refused_whole_where_one_file_has_changed() {
    block(async {
        let (dir, runtime) = scene();
        let ws = dir.path().join("ws");
        let step = |path: &str| json!({"act": "put", "path": path, "text": "new"});
        let call = Call::new("commit", json!({"commits": [[step("a"), step("b"), step("d/run")]]}));
        let done = runtime.call(call).await;
        assert!(done.ok, "{done:?}");
        fs::write(ws.join("b"), "mine").unwrap();
        let before = tree(&ws);
        let refused = runtime.undo(done.call.as_str(), false).await.unwrap();
        assert_eq!(refused.error.as_ref().map(|error| error.kind), Some(ErrorKind::Conflict));
        assert!(refused.text().contains("Changed since"), "{}", refused.text());
        assert_eq!(tree(&ws), before);
        // A mode counts as a change too.
        fs::write(ws.join("b"), "new").unwrap();
        fs::set_permissions(ws.join("a"), fs::Permissions::from_mode(0o600)).unwrap();
        assert!(!runtime.undo(done.call.as_str(), false).await.unwrap().ok);
        assert!(runtime.undo(done.call.as_str(), true).await.unwrap().ok);
        assert_eq!(fs::read(ws.join("a")).unwrap(), b"a\n");
        assert!(!ws.join("b").exists());
    });
}

#[test]
fn a_directory_that_the_call_made_stays_if_something_is_in_it_that_no_tool_may_name() {
    block(async {
        let (dir, runtime) = scene();
        let ws = dir.path().join("ws");
        let step = json!({"act": "put", "path": "new/deep/a", "text": "new"});
        let done = runtime.call(Call::new("commit", json!({"commits": [[step]]}))).await;
        assert!(done.ok, "{done:?}");
        fs::write(ws.join("new/.env"), "KEY=1").unwrap();
        let undone = runtime.undo(done.call.as_str(), false).await.unwrap();
        assert!(undone.ok, "{undone:?}");
        assert!(!ws.join("new/deep").exists());
        assert_eq!(fs::read(ws.join("new/.env")).unwrap(), b"KEY=1");
        assert_eq!(undone.details["left"], json!(["new"]));
    });
}

#[test]
fn nothing_is_kept_where_the_owner_wants_nothing_kept() {
    block(async {
        let (_dir, runtime) = scene_with("limits.undo_store_bytes = 0");
        let step = json!({"act": "put", "path": "a", "text": "new"});
        let done = runtime.call(Call::new("commit", json!({"commits": [[step]]}))).await;
        assert!(done.ok, "{done:?}");
        assert!(runtime.file_calls().unwrap().is_empty());
        assert!(runtime.undo(done.call.as_str(), false).await.is_err());
    });
}

#[test]
fn a_call_whose_files_are_as_before_is_undone_too() {
    block(async {
        let (dir, runtime) = scene();
        let ws = dir.path().join("ws");
        let step = json!({"act": "put", "path": "b", "text": "new"});
        let done = runtime.call(Call::new("commit", json!({"commits": [[step]]}))).await;
        assert!(done.ok, "{done:?}");
        fs::remove_file(ws.join("b")).unwrap();
        let is_undone = || {
            let entries = runtime.file_calls().unwrap();
            entries.into_iter().find(|entry| entry.record.call == done.call.as_str()).unwrap().undone
        };
        let undos = || {
            let entries = runtime.file_calls().unwrap().into_iter();
            entries.filter(|entry| entry.record.undoes.is_some()).map(|entry| entry.record.call).collect()
        };
        let undone = runtime.undo(done.call.as_str(), false).await.unwrap();
        assert!(undone.ok && undone.text().starts_with("Everything is as it was"), "{}", undone.text());
        let first: Vec<String> = undos();
        assert_eq!((is_undone(), first.as_slice()), (true, &[undone.call.to_string()][..]));
        // Once is enough, or the undo of an undo would not bring the call back.
        assert!(runtime.undo(done.call.as_str(), false).await.unwrap().ok);
        assert_eq!(undos(), first);
        assert!(runtime.undo(undone.call.as_str(), false).await.unwrap().ok);
        assert!(!is_undone());
    });
}

#[test]
fn what_could_not_be_put_back_is_not_said_to_be_as_before() {
    block(async {
        let (_dir, runtime) = scene_with("limits.undo_bytes = 1");
        let put = |path: &str| json!({"act": "put", "path": path, "text": "new"});
        for (steps, said) in [
            (json!([put("a")]), "Nothing was put back"),
            (json!([put("d/run"), put("b")]), "Put back what was there before"),
        ] {
            let done = runtime.call(Call::new("commit", json!({ "commits": [steps] }))).await;
            assert!(done.ok, "{done:?}");
            let undone = runtime.undo(done.call.as_str(), true).await.unwrap();
            assert!(undone.ok && undone.text().starts_with(said), "{}", undone.text());
            assert!(undone.text().contains("left"), "{}", undone.text());
            assert_eq!(undone.details["left"].as_array().map(Vec::len), Some(1), "{undone:?}");
        }
    });
}

/// The file of the only content that is kept with these bytes.
fn kept_file(dir: &Path, bytes: &[u8]) -> std::path::PathBuf {
    let blobs = dir.join("home/undo/blobs");
    let mut found = tree(&blobs).into_iter().filter(|(_, (_, content))| content.as_deref() == Some(bytes));
    blobs.join(found.next().unwrap().0)
}

#[test]
fn a_content_that_is_kept_already_is_taken_only_if_it_is_sound() {
    block(async {
        let (dir, runtime) = scene();
        let ws = dir.path().join("ws");
        let put = |text: &str| {
            let step = json!({"act": "put", "path": "a", "text": text});
            Call::new("commit", json!({"commits": [[step]]}))
        };
        // The same content is there before three calls.
        let first = runtime.call(put("b\n")).await;
        assert!(first.ok && runtime.call(put("a\n")).await.ok);
        fs::write(kept_file(dir.path(), b"a\n"), "x\n").unwrap();
        let second = runtime.call(put("b\n")).await;
        // What was damaged is mended, so both calls can be undone.
        assert!(runtime.undo(second.call.as_str(), false).await.unwrap().ok);
        assert_eq!(fs::read(ws.join("a")).unwrap(), b"a\n");
        let third = runtime.call(put("b\n")).await;
        assert!(third.ok);
        fs::write(kept_file(dir.path(), b"a\n"), "x\n").unwrap();
        let before = tree(&ws);
        for (call, force) in [(&first, false), (&third, false), (&third, true)] {
            let refused = runtime.undo(call.call.as_str(), force).await.unwrap();
            assert!(force || refused.text().contains("was kept and is damaged: a."), "{}", refused.text());
            assert_eq!((refused.ok, tree(&ws)), (force, before.clone()));
        }
    });
}

#[test]
fn what_was_removed_or_moved_comes_back_to_its_owner() {
    block(async {
        let (dir, runtime) = scene();
        let ws = dir.path().join("ws");
        // Only root can give a file away; for anybody else it is his own.
        let _ = std::os::unix::fs::chown(ws.join("a"), Some(1234), Some(2345));
        let _ = std::os::unix::fs::chown(ws.join("d/run"), Some(1234), Some(2345));
        let state = || {
            let owner =
                |path: &str| fs::metadata(ws.join(path)).map(|data| (data.uid(), data.gid())).unwrap();
            (tree(&ws), owner("a"), owner("d/run"))
        };
        let before = state();
        let removed = json!({"act": "remove", "path": "a", "text": ""});
        let moved = json!({"act": "rewrite", "path": "d/run", "text": "elsewhere"});
        let done = runtime.call(Call::new("commit", json!({"commits": [[removed, moved]]}))).await;
        assert!(done.ok && !ws.join("a").exists(), "{done:?}");
        let undone = runtime.undo(done.call.as_str(), false).await.unwrap();
        assert!(undone.ok, "{undone:?}");
        assert_eq!(state(), before);
    });
}
