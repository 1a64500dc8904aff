//! What the case folders cannot bring about: a file that changes under the tool, a commit that fails after it happened,
//! an edit that comes twice.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use helve_core::context::{Parts, assemble};
use helve_core::files::{
    Act, Change, Changed, ContentId, Expect, FileContent, FileKind, FileStat, ListRequest, Listed, Page,
    PageRequest, SearchRequest, Searched, Seen, WalkRequest, Walked,
};
use helve_core::{
    BoxFuture, CallId, Cancel, Context, ErrorKind, Files, FilesPlace, Limits, Output, Progress, ToolError,
    typed,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::EditFile;
use crate::write_file::WriteFile;

/// What happens at the next commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Somebody writes these bytes first.
    Meanwhile(&'static [u8]),
    /// Something else happens at the same moment, and nothing is changed.
    Races,
    /// It happens, and an error is told.
    HappensAndFails,
    /// Nothing happens, and an error is told.
    Fails,
}

/// One file `f`, in a sandbox that is none.
#[derive(Default)]
struct OneFile {
    content: Mutex<Option<Vec<u8>>>,
    fates: Mutex<VecDeque<Fate>>,
    seen: Mutex<Option<Seen>>,
}

fn id(bytes: &[u8]) -> ContentId {
    ContentId(format!("test:{}", String::from_utf8_lossy(bytes)))
}

fn now<T: Send + 'static>(value: T) -> BoxFuture<'static, T> {
    Box::pin(std::future::ready(value))
}

impl OneFile {
    fn put(&self, change: Change) -> Result<Vec<Changed>, ToolError> {
        let mut content = self.content.lock().unwrap();
        let fate = self.fates.lock().unwrap().pop_front();
        if let Some(Fate::Meanwhile(bytes)) = fate {
            *content = Some(bytes.to_vec());
        }
        if fate == Some(Fate::Races) {
            return Err(ToolError::new(ErrorKind::Conflict, "f was changed at the same moment."));
        }
        let before = content.as_deref().map(id);
        let seen = self.seen.lock().unwrap().as_ref().map(|seen| seen.id.clone());
        let fits = match &change.expect {
            Expect::Any => true,
            Expect::Absent => before.is_none(),
            Expect::Content(wanted) => before.as_ref() == Some(wanted),
            Expect::AsSeen => seen.is_none() || before.is_none() || before == seen,
        };
        if !fits {
            return Err(ToolError::new(ErrorKind::Conflict, "f is not what it was."));
        }
        if fate == Some(Fate::Fails) {
            return Err(ToolError::failed("The disk is full."));
        }
        let after = match change.act {
            Act::Put(bytes) => bytes.to_vec(),
            Act::Append(bytes) => [content.clone().unwrap_or_default(), bytes].concat(),
            Act::Restore { .. } | Act::Remove | Act::Move { .. } | Act::Mkdirp => {
                unreachable!("no file tool here does that")
            }
        };
        *content = Some(after.clone());
        if fate == Some(Fate::HappensAndFails) {
            return Err(ToolError::failed("The directory could not be flushed."));
        }
        *self.seen.lock().unwrap() = Some(Seen { id: id(&after), content: Some(after.clone()) });
        Ok(vec![Changed { path: "f".into(), before, after: Some(id(&after)), len: after.len() as u64 }])
    }
}

impl Files for OneFile {
    fn place(&self) -> FilesPlace {
        FilesPlace::Sandbox
    }

    fn stat<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<FileStat>, ToolError>> {
        let len = self.content.lock().unwrap().as_ref().map(|bytes| bytes.len() as u64);
        now(Ok(len.map(|len| FileStat { kind: FileKind::File, len, modified: None, mode: 0o644 })))
    }

    fn read<'a>(&'a self, _: &'a str, _: u64) -> BoxFuture<'a, Result<FileContent, ToolError>> {
        let Some(bytes) = self.content.lock().unwrap().clone() else {
            return now(Err(ToolError::not_found("There is no f.")));
        };
        let id = id(&bytes);
        *self.seen.lock().unwrap() = Some(Seen { id: id.clone(), content: Some(bytes.clone()) });
        let stat = FileStat { kind: FileKind::File, len: bytes.len() as u64, modified: None, mode: 0o644 };
        now(Ok(FileContent { bytes, id, stat, path: "f".into() }))
    }

    fn page<'a>(&'a self, _: &'a PageRequest) -> BoxFuture<'a, Result<Page, ToolError>> {
        now(Err(ToolError::internal("not here")))
    }

    fn list<'a>(&'a self, _: &'a ListRequest) -> BoxFuture<'a, Result<Listed, ToolError>> {
        now(Err(ToolError::internal("not here")))
    }

    fn walk<'a>(&'a self, _: &'a WalkRequest) -> BoxFuture<'a, Result<Walked, ToolError>> {
        now(Err(ToolError::internal("not here")))
    }

    fn search<'a>(&'a self, _: &'a SearchRequest) -> BoxFuture<'a, Result<Searched, ToolError>> {
        now(Err(ToolError::internal("not here")))
    }

    fn commit(&self, mut changes: Vec<Change>, _: bool) -> BoxFuture<'_, Result<Vec<Changed>, ToolError>> {
        now(self.put(changes.remove(0)))
    }

    fn last_seen(&self, _: &str) -> Option<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn saw_last(&self, _: &str, seen: &Seen) {
        *self.seen.lock().unwrap() = Some(seen.clone());
    }
}

struct Setting {
    file: Arc<OneFile>,
    context: Context,
    edit: Box<dyn helve_core::Tool>,
    write: Box<dyn helve_core::Tool>,
}

fn setting(content: Option<&str>, fates: &[Fate]) -> Setting {
    let file = Arc::new(OneFile {
        content: Mutex::new(content.map(|text| text.as_bytes().to_vec())),
        fates: Mutex::new(fates.iter().copied().collect()),
        seen: Mutex::default(),
    });
    let call = CallId::from_parts(1, 1);
    let context = assemble(Parts {
        call: call.clone(),
        caller: "owner".into(),
        limits: Arc::new(Limits::default()),
        shell: None,
        files: Some(Arc::clone(&file) as Arc<dyn Files>),
        net: None,
        blobs: None,
        servers: None,
        peer: None,
        progress: Progress::new(call, None),
        cancel: Cancel::never(),
    });
    Setting { file, context, edit: Box::new(typed(EditFile::default())), write: Box::new(typed(WriteFile)) }
}

impl Setting {
    async fn edit(&self, old: &str, new: &str) -> Result<Output, ToolError> {
        let args = json!({"path": "f", "oldText": old, "newText": new});
        self.edit.run(args, &self.context).await
    }

    async fn write(&self, args: Value) -> Result<Output, ToolError> {
        self.write.run(args, &self.context).await
    }

    fn content(&self) -> String {
        String::from_utf8(self.file.content.lock().unwrap().clone().unwrap()).unwrap()
    }
}

#[tokio::test]
async fn in_a_sandbox_the_text_and_the_details_say_so() {
    let at = setting(Some("console.log(\"Hello\");"), &[]);
    let output = at.edit("console.log(\"Hello\");", "console.log(\"Hello, World!\");").await.unwrap();
    assert_eq!(output.joined_text(), "Successfully edited sandbox:f");
    assert_eq!(output.details["sandbox"], true);
    let output = at.write(json!({"path": "f", "content": "é"})).await.unwrap();
    assert_eq!(output.joined_text(), "Successfully wrote 2 bytes to sandbox:f");
    assert_eq!(output.details["bytesWritten"], 2);
}

#[tokio::test]
async fn an_edit_that_fails_after_it_happened_is_a_success() {
    let at = setting(Some("a b"), &[Fate::HappensAndFails]);
    assert_eq!(at.edit("a", "x").await.unwrap().joined_text(), "Successfully edited sandbox:f");
    assert_eq!(at.content(), "x b");
    let at = setting(Some("a b"), &[Fate::HappensAndFails]);
    let output = at.write(json!({"path": "f", "content": "new"})).await.unwrap();
    assert_eq!(output.details["status"], "changed");
}

#[tokio::test]
async fn an_edit_that_fails_before_it_happened_is_an_error() {
    let at = setting(Some("a b"), &[Fate::Fails]);
    assert_eq!(at.edit("a", "x").await.unwrap_err().message, "The disk is full.");
    assert_eq!(at.content(), "a b");
}

#[tokio::test]
async fn the_same_edit_again_is_a_success_only_while_the_file_is_what_it_made() {
    let at = setting(Some("one\n"), &[]);
    at.edit("one", "two").await.unwrap();
    let again = at.edit("one", "two").await.unwrap();
    assert_eq!(again.details["status"], "already_applied");
    assert_eq!(at.content(), "two\n");
    let other = at.edit("one", "three").await.unwrap_err();
    assert!(other.message.starts_with("Could not find the exact text in sandbox:f."), "{}", other.message);
    *at.file.content.lock().unwrap() = Some(b"two and more\n".to_vec());
    assert_eq!(at.edit("one", "two").await.unwrap_err().kind, ErrorKind::ToolFailed);
}

#[tokio::test]
async fn a_file_that_changes_meanwhile_is_read_again_a_bounded_number_of_times() {
    let at =
        setting(Some("a b"), &[Fate::Meanwhile(b"a c"), Fate::Meanwhile(b"a d"), Fate::Meanwhile(b"a e")]);
    at.edit("a", "x").await.unwrap();
    assert_eq!(at.content(), "x e");
    let fates: Vec<Fate> =
        (0..500).map(|n| Fate::Meanwhile(if n % 2 == 0 { b"a c" } else { b"a d" })).collect();
    let at = setting(Some("a b"), &fates);
    assert_eq!(at.edit("a", "x").await.unwrap_err().kind, ErrorKind::Conflict);
    assert!(at.content().starts_with('a'));
}

#[tokio::test]
async fn an_append_that_meets_others_is_made_all_the_same() {
    let at = setting(Some("a\n"), &[Fate::Races, Fate::Races, Fate::Races]);
    at.write(json!({"path": "f", "content": "b\n", "mode": "append"})).await.unwrap();
    assert_eq!(at.content(), "a\nb\n");
}

#[tokio::test]
async fn a_write_over_an_unseen_change_shows_it_and_then_goes_through() {
    let at = setting(Some("a\n"), &[]);
    at.edit("a", "b").await.unwrap();
    *at.file.content.lock().unwrap() = Some(b"b\nsomebody else\n".to_vec());
    let args = json!({"path": "f", "content": "mine\n"});
    let error = at.write(args.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(error.message.contains("+somebody else"), "{}", error.message);
    assert_eq!(at.content(), "b\nsomebody else\n");
    at.write(args).await.unwrap();
    assert_eq!(at.content(), "mine\n");
}

#[tokio::test]
async fn an_edit_does_not_count_as_seeing_what_others_changed() {
    let at = setting(Some("a\nx\n"), &[]);
    at.write(json!({"path": "f", "content": "a\n"})).await.unwrap();
    *at.file.content.lock().unwrap() = Some(b"a\nsomebody else\n".to_vec());
    at.edit("a", "b").await.unwrap();
    let error = at.write(json!({"path": "f", "content": "mine\n"})).await.unwrap_err();
    assert!(error.message.contains("+somebody else"), "{}", error.message);
}

#[tokio::test]
async fn a_chunk_is_written_once() {
    let at = setting(None, &[]);
    at.write(json!({"path": "f", "content": "one "})).await.unwrap();
    let chunk = json!({"path": "f", "content": "two", "mode": "append", "at": 4});
    assert_eq!(at.write(chunk.clone()).await.unwrap().details["totalBytes"], 7);
    assert_eq!(at.write(chunk).await.unwrap().details["status"], "unchanged");
    assert_eq!(at.content(), "one two");
    let far = json!({"path": "f", "content": "x", "mode": "append", "at": 100});
    assert_eq!(at.write(far).await.unwrap_err().kind, ErrorKind::Conflict);
    let farthest = json!({"path": "f", "content": "x", "mode": "append", "at": u64::MAX});
    assert_eq!(at.write(farthest).await.unwrap_err().kind, ErrorKind::Conflict);
}
