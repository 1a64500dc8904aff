//! The helper: one request from standard input, one answer to standard output, and the end.
//!
//! It runs inside the sandbox with the rights of any command there, and does its work with the host workspace's own code.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve_core::files::{Change, FilesBridge, FilesScope, Is, Seen, SeenFiles, UndoSink, Was};
use helve_core::{Cancel, ErrorKind, ToolError, WireError};

use super::wire::{Ask, Asked, Had, Keep, Told, decode, encode};
use super::{HELPER_WORD, known};
use crate::host::{Options, open_with};

/// The largest request.
const MOST_BYTES: u64 = 1 << 30;

/// Serves one request if this program was started for that: its first argument says so. The caller's `main` returns
/// what comes back.
pub fn serve_if_asked() -> Option<ExitCode> {
    let asked = std::env::args_os().nth(1).is_some_and(|word| word == HELPER_WORD);
    asked.then(|| match serve(io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The other side shows it where it tells that no answer came.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    })
}

/// Answers the request that `input` holds.
pub(super) fn serve(input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut message = Vec::new();
    input.take(MOST_BYTES).read_to_end(&mut message)?;
    output.write_all(&answer_request(&message, Cancel::never())?)?;
    output.flush()
}

/// The answer to one request of a bridge outside, both as they travel: what a helper does that stays in its sandbox. It
/// blocks until it is done, or until `cancel` fires and the request is one that may be left.
pub fn answer_request(message: &[u8], cancel: Cancel) -> io::Result<Vec<u8>> {
    let (asked, rest) = decode::<Asked>(message)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut content = Vec::new();
    let told = runtime.block_on(answer(asked, rest, &mut content, cancel));
    let told = told.unwrap_or_else(|error| Told::Failed(WireError::from(error)));
    encode(&told, &content)
}

async fn answer(
    asked: Asked,
    mut rest: &[u8],
    content: &mut Vec<u8>,
    cancel: Cancel,
) -> Result<Told, ToolError> {
    let bound = asked.rules.max_file_bytes;
    let workspace = open_with(&asked.workspace, asked.rules, Options { fsync: asked.fsync, janitor: None })?;
    let keeper = Arc::new(Keeper::new(bound));
    let mut scope = FilesScope {
        agreed: asked.agreed,
        left_out: asked.left_out,
        undo: None,
        seen: Some(Arc::new(Given(asked.seen))),
        cancel,
        whole: false,
    };
    let files = |scope: FilesScope| workspace.scoped(scope);
    Ok(match asked.ask {
        Ask::Stat { path } => Told::Stat(files(scope).stat(&path).await?),
        Ask::Read { path, max } => {
            let read = files(scope).read(&path, max).await?;
            *content = read.bytes;
            Told::Read { id: read.id, stat: read.stat, path: read.path }
        }
        Ask::Page(request) => {
            let files = files(scope);
            let page = files.page(&request).await?;
            // Who reads a file is likely to change it next, and knows then what it replaces.
            if let Some(id) = &page.id
                && page.stat.len <= known::ONE_BYTES
                && let Ok(read) = files.read(&request.path, known::ONE_BYTES).await
                && read.id == *id
            {
                *content = read.bytes;
            }
            Told::Page(Box::new(page))
        }
        Ask::List(request) => Told::List(files(scope).list(&request).await?),
        Ask::Walk(request) => Told::Walk(files(scope).walk(&request).await?),
        Ask::Search(request) => Told::Search(files(scope).search(&request).await?),
        Ask::Commit { changes, rehearse, keep } => {
            let changes: io::Result<Vec<Change>> =
                changes.into_iter().map(|planned| planned.change(&mut rest)).collect();
            let changes =
                changes.map_err(|error| ToolError::internal(format!("The request is broken: {error}")))?;
            let collects = matches!(keep, Keep::Collect);
            if !matches!(keep, Keep::Nothing) {
                let mut state = keeper.state();
                match keep {
                    Keep::Same(had) => state.expected = Some(had),
                    Keep::Guess(guess) => state.guess = Some(guess),
                    Keep::Nothing | Keep::Collect => {}
                }
                drop(state);
                scope.undo = Some(Arc::clone(&keeper) as Arc<dyn UndoSink>);
            }
            let done = files(scope).commit(changes, rehearse).await;
            if keeper.state().stopped {
                let mut state = keeper.state();
                *content = std::mem::take(&mut state.bytes);
                return Ok(Told::Collected(std::mem::take(&mut state.collected)));
            }
            let done = done?;
            // A commit that changes nothing asks nobody to keep anything.
            if collects { Told::Collected(Vec::new()) } else { Told::Done(done) }
        }
    })
}

/// What the session saw, as the request says.
struct Given(Vec<(String, helve_core::files::ContentId)>);

impl SeenFiles for Given {
    fn last(&self, path: &str) -> Option<Seen> {
        let (_, id) = self.0.iter().find(|(known, _)| known == path)?;
        Some(Seen { content: None, id: id.clone() })
    }

    fn saw(&self, _path: &str, _id: Option<&helve_core::files::ContentId>, _bytes: Option<&[u8]>) {}
}

/// Collects what is there before a commit, or compares it with what was collected.
struct Keeper(Mutex<Kept>, u64);

#[derive(Default)]
struct Kept {
    /// What must be there; none while it is collected.
    expected: Option<Vec<(String, Had)>>,
    /// What is believed to be there, and what will be.
    guess: Option<Vec<(String, Had, Is)>>,
    collected: Vec<(String, Had, Is)>,
    bytes: Vec<u8>,
    /// Whether everything was collected, and the commit stopped.
    stopped: bool,
}

impl Keeper {
    fn new(bound: u64) -> Keeper {
        Keeper(Mutex::default(), bound)
    }

    fn state(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn changed_meanwhile(path: &str) -> ToolError {
    ToolError::new(ErrorKind::Conflict, format!("{path} was changed meanwhile."))
}

impl UndoSink for Keeper {
    fn before(&self, path: &str, was: Was<'_>, will_be: &Is) -> Result<(), ToolError> {
        let mut state = self.state();
        let mut content = Vec::new();
        let had = match was {
            Was::Absent => Had::Absent,
            Was::Directory | Was::Folder { .. } => Had::Directory,
            Was::Link { .. } => return Err(changed_meanwhile(path)),
            Was::File { id, content: source, len, mode, attributes } => {
                if state.bytes.len() as u64 + len > self.1 {
                    let message = format!("More than {} bytes would have to be kept to undo this.", self.1);
                    return Err(ToolError::new(ErrorKind::TooLarge, message)
                        .hint("Change fewer files at once, or raise limits.file_bytes."));
                }
                let read = source.take(len.saturating_add(1)).read_to_end(&mut content);
                read.map_err(|error| ToolError::failed(format!("{path} cannot be read: {error}")))?;
                if crate::commit::id_of(&content) != *id {
                    return Err(changed_meanwhile(path));
                }
                Had::File { id: id.clone(), len: content.len() as u64, mode, attributes }
            }
        };
        if let Some(expected) = &state.expected {
            if expected.iter().any(|(known, held)| known == path && *held == had) {
                return Ok(());
            }
            return Err(changed_meanwhile(path));
        }
        state.bytes.append(&mut content);
        state.collected.push((path.to_owned(), had, will_be.clone()));
        Ok(())
    }

    fn ready(&self) -> Result<(), ToolError> {
        let mut state = self.state();
        let guessed = |guess: &Vec<_>| state.collected.iter().all(|one| guess.contains(one));
        if state.expected.is_some() || state.guess.as_ref().is_some_and(guessed) {
            return Ok(());
        }
        state.stopped = true;
        Err(ToolError::internal("What is there was collected; nothing was changed."))
    }

    fn done(&self, _happened: bool) {}
}
