//! The bridge to the files as a sandboxed command sees them: each request is answered by a helper inside the sandbox.
//!
//! In comes a [`ShellBackend`]; out goes a [`FilesBridge`] that does everything through it, in one round trip a request, so
//! that no file is opened with other rights than a command has. A sandbox that keeps a helper inside is asked for it
//! ([`ShellBackend::files_helper`], which calls [`answer_request`] there). In others the helper is the surrounding program
//! itself, started for each request with [`HELPER_WORD`] as its only argument ([`serve_if_asked`]); it has to lie where
//! commands see it. A change that can be undone takes two round trips, because what is there has to be kept outside before
//! anything changes; one, where the bridge has had it in its hands (`known`) and nobody has changed it since.
//!
//! Deliberately not here: a janitor. What a killed helper leaves behind stays until somebody removes `.helve-*.tmp`.

mod answer;
mod known;
mod serve;
mod wire;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helve_core::files::{
    Act, Change, Changed, ContentId, FileContent, FileStat, Files, FilesBridge, FilesPlace, FilesScope, Is,
    ListRequest, Listed, Page, PageRequest, PathRules, SearchRequest, Searched, Seen, WalkRequest, Walked,
    Was,
};
use helve_core::{BoxFuture, Cancel, ErrorKind, Exit, ShellBackend, ShellJob, ToolError, Work};

use crate::{commit, names, refuse};
use answer::Answer;
use known::{Guess, Known};
pub use serve::{answer_request, serve_if_asked};
use wire::{Ask, Asked, Had, Keep, Planned, Told, decode, encode, take};

/// The argument that makes a program the helper.
pub const HELPER_WORD: &str = "helve-files-helper";

/// How much an answer may hold beside the content of files.
const ANSWER_BYTES: u64 = 64 << 20;

/// What the bridge needs.
pub struct Inside {
    /// The sandbox.
    pub backend: Arc<dyn ShellBackend>,
    /// The program that is the helper, by the path under which commands see it.
    pub program: PathBuf,
    /// The workspace, by its real path.
    pub workspace: PathBuf,
    /// What the policy says about paths.
    pub rules: PathRules,
    /// How long one request may take.
    pub timeout: Duration,
    /// Whether a change waits until the disk has it.
    pub fsync: bool,
}

/// The bridge.
pub fn inside(parts: Inside) -> Arc<dyn FilesBridge> {
    Arc::new(Bridge(Arc::new(parts), Arc::default()))
}

struct Bridge(Arc<Inside>, Arc<Mutex<Known>>);

impl FilesBridge for Bridge {
    fn place(&self) -> FilesPlace {
        FilesPlace::Sandbox
    }

    fn scoped(&self, scope: FilesScope) -> Arc<dyn Files> {
        Arc::new(Handle { parts: Arc::clone(&self.0), known: Arc::clone(&self.1), scope })
    }
}

/// What one call gets.
struct Handle {
    parts: Arc<Inside>,
    known: Arc<Mutex<Known>>,
    scope: FilesScope,
}

impl Handle {
    /// One round trip: the answer, and the bytes after it.
    async fn ask(&self, ask: Ask, paths: &[&str], content: &[u8]) -> Result<(Told, Vec<u8>), ToolError> {
        let cancel = self.scope.cancel.clone();
        self.ask_until(ask, paths, content, cancel).await.map_err(|unmade| unmade.error)
    }

    async fn ask_until(
        &self,
        ask: Ask,
        paths: &[&str],
        content: &[u8],
        cancel: Cancel,
    ) -> Result<(Told, Vec<u8>), Unmade> {
        let parts = &self.parts;
        let seen = paths.iter().filter_map(|path| {
            let key = self.key(path)?;
            let last = self.scope.seen.as_ref()?.last(&key)?;
            Some((key, last.id))
        });
        let asked = Asked {
            workspace: parts.workspace.clone(),
            rules: parts.rules.clone(),
            agreed: self.scope.agreed.clone(),
            left_out: self.scope.left_out.clone(),
            seen: seen.collect(),
            fsync: parts.fsync,
            ask,
        };
        let broken =
            |error: std::io::Error| ToolError::internal(format!("The request cannot be written: {error}"));
        let request = encode(&asked, content).map_err(broken)?;
        let most = parts.rules.max_file_bytes.saturating_add(ANSWER_BYTES);
        if let Some(helper) = parts.backend.files_helper() {
            let answer = helper.ask(request, most, parts.timeout, cancel).await?;
            return self.told(&answer);
        }
        let job = ShellJob {
            work: Work::Program(vec![parts.program.display().to_string(), HELPER_WORD.to_owned()]),
            stdin: request,
            working_dir: None,
            timeout: parts.timeout,
        };
        let answer = Answer::new(most);
        let ended = parts.backend.run(job, Box::new(answer.clone()), cancel).await?;
        let answer = answer.take();
        match ended.exit {
            Exit::Code(0) => {}
            Exit::TimedOut => {
                let message = format!("The files did not answer within {} seconds.", parts.timeout.as_secs());
                return Err(ToolError::new(ErrorKind::Timeout, message).hint("Ask for less at once.").into());
            }
            Exit::Cancelled => {
                return Err(ToolError::new(ErrorKind::Cancelled, "The call was taken back.").into());
            }
            Exit::Code(_) | Exit::Signal(_) => return Err(self.no_answer(&answer.complaint()).into()),
        }
        if answer.too_much {
            let error = ToolError::new(ErrorKind::TooLarge, "The answer is too large.");
            return Err(error.hint("Ask for less at once.").into());
        }
        self.told(&answer.output)
    }

    /// What an answer says, and the bytes after it.
    fn told(&self, answer: &[u8]) -> Result<(Told, Vec<u8>), Unmade> {
        match decode::<Told>(answer) {
            Ok((Told::Failed(error), _)) => {
                let error = ToolError::from(error);
                // What could not be put back is told as an internal error.
                Err(Unmade { nothing: error.kind != ErrorKind::Internal, error })
            }
            Ok((told, rest)) => Ok((told, rest.to_vec())),
            Err(error) => Err(self.no_answer(&error.to_string()).into()),
        }
    }

    fn no_answer(&self, why: &str) -> ToolError {
        let program = self.parts.program.display();
        ToolError::internal(format!("The helper {program} gave no answer from inside the sandbox: {why}")).hint(
            "The program has to be where commands see it, and its main has to begin with helve::serve_files_if_asked().",
        )
    }

    /// The name under which the session keeps what it saw of a path.
    fn key(&self, path: &str) -> Option<String> {
        let workspace = self.parts.workspace.to_str()?;
        let relative = match names::asked(path).ok()? {
            names::Asked::Relative(path) => path,
            names::Asked::Absolute(path) => match path.strip_prefix(workspace) {
                Some(below) if below.is_empty() || below.starts_with('/') => below,
                _ => return Some(format!("/{}", names::parts(path)?.join("/"))),
            },
        };
        Some(names::parts(relative)?.join("/"))
    }

    /// The paths that changes name, without `.` and `..`.
    fn named(&self, changes: &[Change]) -> Vec<String> {
        let moved = changes.iter().filter_map(|change| match &change.act {
            Act::Move { to, .. } => Some(to),
            _ => None,
        });
        changes.iter().map(|change| &change.path).chain(moved).filter_map(|path| self.key(path)).collect()
    }

    fn saw(&self, path: &str, id: Option<&ContentId>, bytes: Option<&[u8]>) {
        if let Some(seen) = &self.scope.seen {
            seen.saw(path, id, bytes);
        }
    }

    async fn make(&self, changes: Vec<Change>, rehearse: bool) -> Result<Vec<Changed>, ToolError> {
        let mut content = Vec::new();
        let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
        let mut planned = || {
            content.clear();
            changes.iter().map(|change| Planned::new(change, &mut content)).collect::<Vec<_>>()
        };
        let plan = planned();
        let Some(undo) = self.scope.undo.clone().filter(|_| !rehearse) else {
            let done = self.commit_once(plan, rehearse, Keep::Nothing, &paths, &content).await;
            return done.map_err(|unmade| unmade.error);
        };
        let again = planned();
        let keys: Vec<String> = paths.iter().filter_map(|path| self.key(path)).collect();
        let guess = self.known().guess(&changes, &keys);
        let (told, bytes) = match guess {
            Some(guess) => {
                let (told, bytes) = self.commit_guessed(plan, &guess, &*undo, &paths, &content).await?;
                if let Told::Done(done) = told {
                    self.known().changed(&changes, &keys);
                    return Ok(done);
                }
                (told, bytes)
            }
            None => {
                let ask = Ask::Commit { changes: plan, rehearse: false, keep: Keep::Collect };
                self.ask(ask, &paths, &content).await?
            }
        };
        let Told::Collected(collected) = told else {
            return Err(self.no_answer("it answered something else"));
        };
        let mut had = Vec::new();
        let broken = |error: std::io::Error| self.no_answer(&error.to_string());
        let mut rest = bytes.as_slice();
        let mut before: Vec<(String, Had, Is, &[u8])> = Vec::new();
        let named = self.named(&changes);
        for (path, was, will_be) in collected {
            // An undo puts back whatever is kept, also what is protected. Above what was named only directories are made.
            let above = |one: &str| one.starts_with(&format!("{path}/")) && !matches!(was, Had::File { .. });
            // A root besides the workspace may be named in two ways.
            let elsewhere =
                self.parts.rules.roots.iter().any(|root| Path::new(&path).starts_with(&root.path));
            if !elsewhere && !named.iter().any(|one| *one == path || above(one)) {
                return Err(self.no_answer("it speaks of a path that nobody named"));
            }
            let len = if let Had::File { len, .. } = &was { *len } else { 0 };
            let bytes = take(&mut rest, usize::try_from(len).unwrap_or(usize::MAX)).map_err(broken)?;
            had.push((path.clone(), was.clone()));
            before.push((path, was, will_be, bytes));
        }
        keep(&*undo, before)?;
        let done = self.commit_once(again, false, Keep::Same(had), &paths, &content).await;
        match &done {
            Ok(_) => {
                self.known().changed(&changes, &keys);
                undo.done(true);
            }
            Err(Unmade { nothing: true, .. }) => undo.done(false),
            // Only the record knows then what was there.
            Err(_) => {}
        }
        done.map_err(|unmade| unmade.error)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what is believed to be there and makes the changes, all in one round trip. Where something else is there, the
    /// helper tells what, and nothing has happened.
    async fn commit_guessed(
        &self,
        changes: Vec<Planned>,
        guess: &[Guess],
        undo: &dyn helve_core::files::UndoSink,
        paths: &[&str],
        content: &[u8],
    ) -> Result<(Told, Vec<u8>), ToolError> {
        if self.scope.cancel.is_cancelled() {
            return Err(refuse::cancelled());
        }
        let before = guess
            .iter()
            .map(|one| (one.path.clone(), one.had.clone(), one.will_be.clone(), one.bytes.as_slice()));
        keep(undo, before.collect())?;
        let believed = guess.iter().map(|one| (one.path.clone(), one.had.clone(), one.will_be.clone()));
        let ask = Ask::Commit { changes, rehearse: false, keep: Keep::Guess(believed.collect()) };
        match self.ask_until(ask, paths, content, Cancel::never()).await {
            Ok((Told::Done(done), bytes)) => {
                undo.done(true);
                for one in &done {
                    self.saw(&one.path, one.after.as_ref(), None);
                }
                Ok((Told::Done(done), bytes))
            }
            Ok(other) => {
                undo.done(false);
                Ok(other)
            }
            Err(Unmade { nothing, error }) => {
                if nothing {
                    undo.done(false);
                }
                Err(error)
            }
        }
    }

    async fn commit_once(
        &self,
        changes: Vec<Planned>,
        rehearse: bool,
        keep: Keep,
        paths: &[&str],
        content: &[u8],
    ) -> Result<Vec<Changed>, Unmade> {
        if self.scope.cancel.is_cancelled() {
            return Err(Unmade { error: refuse::cancelled(), nothing: true });
        }
        let ask = Ask::Commit { changes, rehearse, keep };
        // Once begun it goes on to its end: a helper that is killed in the middle leaves some files new and others old.
        let (told, _) = self.ask_until(ask, paths, content, Cancel::never()).await?;
        let Told::Done(done) = told else { return Err(self.no_answer("it answered something else").into()) };
        if !rehearse {
            for one in &done {
                self.saw(&one.path, one.after.as_ref(), None);
            }
        }
        Ok(done)
    }
}

/// Gives what was collected to whoever keeps it.
fn keep(
    undo: &dyn helve_core::files::UndoSink,
    before: Vec<(String, Had, Is, &[u8])>,
) -> Result<(), ToolError> {
    let kept = before.into_iter().try_for_each(|(path, had, will_be, mut bytes)| {
        let id;
        let was = match had {
            Had::Absent => Was::Absent,
            Had::Directory => Was::Directory,
            Had::File { len, mode, attributes, .. } => {
                // What the helper says is not enough: by a wrong hash an undo would put back something else.
                id = commit::id_of(bytes);
                Was::File { id: &id, content: &mut bytes, len, mode, attributes }
            }
        };
        undo.before(&path, was, &will_be)
    });
    kept.and_then(|()| undo.ready()).inspect_err(|_| undo.done(false))
}

impl Files for Handle {
    fn place(&self) -> FilesPlace {
        FilesPlace::Sandbox
    }

    fn stat<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<FileStat>, ToolError>> {
        Box::pin(async move {
            match self.ask(Ask::Stat { path: path.to_owned() }, &[], b"").await?.0 {
                Told::Stat(stat) => Ok(stat),
                _ => Err(self.no_answer("it answered something else")),
            }
        })
    }

    fn read<'a>(&'a self, path: &'a str, max: u64) -> BoxFuture<'a, Result<FileContent, ToolError>> {
        Box::pin(async move {
            match self.ask(Ask::Read { path: path.to_owned(), max }, &[], b"").await? {
                (Told::Read { id, stat, path }, bytes) => {
                    self.saw(&path, Some(&id), Some(&bytes));
                    self.known().note(&path, Arc::new(bytes.clone()), id.clone(), stat.clone());
                    Ok(FileContent { bytes, id, stat, path })
                }
                _ => Err(self.no_answer("it answered something else")),
            }
        })
    }

    fn page<'a>(&'a self, request: &'a PageRequest) -> BoxFuture<'a, Result<Page, ToolError>> {
        Box::pin(async move {
            match self.ask(Ask::Page(request.clone()), &[], b"").await? {
                (Told::Page(page), bytes) => {
                    if let Some(id) = &page.id {
                        let whole = !bytes.is_empty() && commit::id_of(&bytes) == *id;
                        self.saw(&page.path, Some(id), whole.then_some(&bytes));
                        if whole {
                            self.known().note(&page.path, Arc::new(bytes), id.clone(), page.stat.clone());
                        }
                    }
                    Ok(*page)
                }
                _ => Err(self.no_answer("it answered something else")),
            }
        })
    }

    fn list<'a>(&'a self, request: &'a ListRequest) -> BoxFuture<'a, Result<Listed, ToolError>> {
        Box::pin(async move {
            match self.ask(Ask::List(request.clone()), &[], b"").await?.0 {
                Told::List(listed) => Ok(listed),
                _ => Err(self.no_answer("it answered something else")),
            }
        })
    }

    fn walk<'a>(&'a self, request: &'a WalkRequest) -> BoxFuture<'a, Result<Walked, ToolError>> {
        Box::pin(async move {
            match self.ask(Ask::Walk(request.clone()), &[], b"").await?.0 {
                Told::Walk(walked) => Ok(walked),
                _ => Err(self.no_answer("it answered something else")),
            }
        })
    }

    fn search<'a>(&'a self, request: &'a SearchRequest) -> BoxFuture<'a, Result<Searched, ToolError>> {
        Box::pin(async move {
            match self.ask(Ask::Search(request.clone()), &[], b"").await?.0 {
                Told::Search(searched) => Ok(searched),
                _ => Err(self.no_answer("it answered something else")),
            }
        })
    }

    fn commit(&self, changes: Vec<Change>, rehearse: bool) -> BoxFuture<'_, Result<Vec<Changed>, ToolError>> {
        Box::pin(self.make(changes, rehearse))
    }

    fn recall(&self, path: &str) -> Option<FileContent> {
        self.known().content(&self.key(path)?)
    }

    fn last_seen(&self, path: &str) -> Option<Seen> {
        self.scope.seen.as_ref()?.last(&self.key(path)?)
    }

    fn saw_last(&self, path: &str, seen: &Seen) {
        if let Some(key) = self.key(path) {
            self.saw(&key, Some(&seen.id), seen.content.as_deref());
        }
    }

    fn former<'a>(&'a self, path: &'a str, now: &'a ContentId, max: u64) -> BoxFuture<'a, Option<Vec<u8>>> {
        let (key, seen, now) = (self.key(path), self.scope.seen.clone(), now.clone());
        let work = tokio::task::spawn_blocking(move || seen?.former(&key?, &now, max));
        Box::pin(async move { work.await.ok().flatten() })
    }
}

/// Why there is no answer to a request.
struct Unmade {
    error: ToolError,
    /// Whether it is known that nothing was changed.
    nothing: bool,
}

impl From<ToolError> for Unmade {
    fn from(error: ToolError) -> Unmade {
        Unmade { nothing: error.kind == ErrorKind::SandboxUnavailable, error }
    }
}

#[cfg(test)]
mod tests;
