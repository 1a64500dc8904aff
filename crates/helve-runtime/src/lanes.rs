//! The lanes of one runtime, each opened at its first need: the sandbox, the blob store, and what an embedding program
//! plugged in.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use helve_core::{
    BlobRef, BoxFuture, Cancel, Egress, ErrorKind, Exit, FilesBridge, FilesPlace, FilesScope, OutputSink,
    SandboxChoice, SandboxReport, Servers, ShellBackend, ShellJob, Stream, ToolError, Work,
};
use helve_policy::{Policy, RunBy};
use helve_store::{Blobs, CallStory, Filter, GcOptions, Home, Index, SeenLog, StoreError, Undo};
use helve_workspace::{Inside, Options};
use serde_json::Value;

use crate::files::{self, SessionSeen};
use crate::workspace;

/// The lanes.
pub(crate) struct Lanes {
    pub(crate) policy: Policy,
    pub(crate) workspace: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) plugged_shell: Option<Arc<dyn ShellBackend>>,
    pub(crate) plugged_files: Option<Arc<dyn FilesBridge>>,
    pub(crate) plugged_net: Option<Arc<dyn Egress>>,
    pub(crate) plugged_servers: Option<Arc<dyn Servers>>,
    /// The session whose earlier outputs a tool may read.
    pub(crate) session: String,
    pub(crate) shell: OnceLock<Arc<dyn ShellBackend>>,
    pub(crate) files: OnceLock<Arc<dyn FilesBridge>>,
    pub(crate) undo: OnceLock<Undo>,
    pub(crate) seen: OnceLock<Arc<SessionSeen>>,
    pub(crate) blobs: OnceLock<Arc<Blobs>>,
    pub(crate) kept: AtomicU64,
    /// Whether it was told which calls died while they changed files.
    pub(crate) cut_told: AtomicBool,
}

/// How long the empty command may take.
const TRY_TIMEOUT: Duration = Duration::from_secs(30);

/// Where in the state directory the workspace notes which temporary files it makes.
const JANITOR: &str = "janitor";

/// The tool whose calls may have taken files out of protected places, and at how many of them is looked, the newest first.
const EXEC: &str = "exec";
const MOST_COMMANDS: u64 = 1_000;

/// After the first kept output and then after each so many, the store is brought under its budget.
const TIDY_EVERY: u64 = 32;

impl Lanes {
    /// The sandbox that the policy chose, bound to the workspace.
    pub(crate) fn shell(&self) -> Result<Arc<dyn ShellBackend>, ToolError> {
        if let Some(shell) = &self.plugged_shell {
            return Ok(Arc::clone(shell));
        }
        if let Some(shell) = self.shell.get() {
            return Ok(Arc::clone(shell));
        }
        // Only success is remembered, so that a call works again when its cause is gone.
        let workspace =
            workspace::check_workspace(&self.workspace, &self.home, &self.policy.guarded_files())?;
        // A command, too, finds the files as they were before a change that was cut.
        helve_workspace::recover(&self.home.join(JANITOR));
        let mut view = self.policy.view(&workspace, &self.home);
        // A container brings the helper itself.
        let in_container = matches!(self.policy.sandbox(), SandboxChoice::Container(_));
        if self.policy.files_place() == FilesPlace::Sandbox && !in_container {
            view.read_only.extend(helper().ok());
        }
        let limits = self.policy.process_limits();
        let shell = match self.policy.sandbox() {
            SandboxChoice::Auto => helve_sandbox::ladder(view, limits, Some(self.home.clone()))?,
            choice => helve_sandbox::backend(&choice, view, limits)?,
        };
        Ok(Arc::clone(self.shell.get_or_init(|| shell)))
    }

    /// Runs the shell's empty command; the layers that were really on.
    pub(crate) async fn try_shell(&self) -> Result<SandboxReport, ToolError> {
        let work = Work::Shell(":".to_owned());
        let job = ShellJob { work, stdin: Vec::new(), working_dir: None, timeout: TRY_TIMEOUT };
        let ended = self.shell()?.run(job, Box::new(NoOutput), Cancel::never()).await?;
        if ended.exit == Exit::Code(0) {
            return Ok(ended.sandbox);
        }
        let message = format!("The empty command did not end well in the sandbox: {:?}.", ended.exit);
        Err(ToolError::new(ErrorKind::SandboxUnavailable, message).hint(
            "Look whether tools.exec.shell names a shell that works, and whether the machine is very busy.",
        ))
    }

    /// Where large outputs are kept.
    pub(crate) fn blobs(&self) -> Result<Arc<Blobs>, ToolError> {
        if let Some(blobs) = self.blobs.get() {
            return Ok(Arc::clone(blobs));
        }
        let blobs = open_blobs(&self.home, &self.policy)?;
        Ok(Arc::clone(self.blobs.get_or_init(|| Arc::new(blobs))))
    }

    /// Keeps a whole text.
    pub(crate) fn keep(&self, whole: &str) -> Result<BlobRef, String> {
        let blobs = self.blobs().map_err(|error| error.message)?;
        let mut writer = blobs.writer();
        writer.write(whole.as_bytes()).map_err(|error| error.to_string())?;
        let blob = writer.finish().map_err(|error| error.to_string())?;
        self.blob_kept();
        Ok(BlobRef { id: blob.id, bytes: blob.bytes, dropped: blob.dropped })
    }

    /// Counts a kept output and now and then removes the oldest beyond the budget, beside the calls.
    pub(crate) fn blob_kept(&self) {
        if !self.kept.fetch_add(1, Ordering::Relaxed).is_multiple_of(TIDY_EVERY) {
            return;
        }
        let (home, limits) = (self.home.clone(), self.policy.limits().clone());
        // A failure is no harm: the next time, or `helve gc`, makes up for it.
        let tidy = move || {
            let options = GcOptions {
                blob_budget_bytes: limits.blob_store_bytes,
                undo_budget_bytes: limits.undo_store_bytes,
                dry_run: false,
                sessions_older_than: None,
            };
            let _ = Home::open(&home).and_then(|home| helve_store::gc(&home, &options));
        };
        let _ = std::thread::Builder::new().name("helve-tidy".to_owned()).spawn(tidy);
    }

    /// The paths that a tool passes over where it looks through what is above them.
    pub(crate) fn left_out(&self, tool: &str) -> Vec<String> {
        self.policy.left_out(RunBy { tool, session: Some(&self.session) }, &self.workspace)
    }

    /// The files of the workspace, opened once.
    pub(crate) fn files(&self) -> Result<Arc<dyn FilesBridge>, ToolError> {
        if let Some(files) = self.plugged_files.as_ref().or_else(|| self.files.get()) {
            return Ok(Arc::clone(files));
        }
        // Only success is remembered, so that a call works again when its cause is gone.
        let guarded = self.policy.guarded_files();
        let workspace = workspace::check_workspace(&self.workspace, &self.home, &guarded)?;
        let rules = self.policy.path_rules(&workspace, Some(&self.session));
        for root in &rules.roots {
            workspace::check_root(&root.path, &self.home, &guarded)?;
        }
        if self.policy.files_place() == FilesPlace::Sandbox {
            let files = helve_workspace::inside(Inside {
                backend: self.shell()?,
                program: helper()?,
                workspace,
                rules,
                timeout: Duration::from_secs(self.policy.limits().tool_timeout),
                fsync: true,
            });
            return Ok(Arc::clone(self.files.get_or_init(|| files)));
        }
        let options = Options { janitor: Some(self.home.join(JANITOR)), ..Options::default() };
        let files: Arc<dyn FilesBridge> = helve_workspace::open_with(&workspace, rules, options)?;
        Ok(Arc::clone(self.files.get_or_init(|| files)))
    }

    /// What calls replaced.
    pub(crate) fn undo(&self) -> Result<Undo, ToolError> {
        if let Some(undo) = self.undo.get() {
            return Ok(undo.clone());
        }
        let undo = Home::open(&self.home).and_then(|home| Undo::open(&home));
        let undo = undo.map_err(|error| {
            ToolError::internal(format!("What calls replace cannot be kept: {error}"))
                .hint("Correct the permissions of $HELVE_HOME.")
        })?;
        Ok(self.undo.get_or_init(|| undo).clone())
    }

    /// What became of the calls whose process died while they changed files: told once, at the first need.
    pub(crate) async fn cut_calls(&self) -> Result<Vec<String>, ToolError> {
        if self.cut_told.swap(true, Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let (undo, files) = (self.undo()?, self.files()?.scoped(FilesScope::default()));
        let limits = self.policy.limits();
        let max = limits.undo_bytes.max(limits.file_bytes);
        files::settle(&undo, &*files, &self.workspace_name(), max).await
    }

    /// What the session has seen of files.
    pub(crate) fn seen(&self) -> Result<Arc<SessionSeen>, ToolError> {
        if let Some(seen) = self.seen.get() {
            return Ok(Arc::clone(seen));
        }
        let log = Home::open(&self.home)
            .and_then(|home| SeenLog::open(&home, &self.session, &self.workspace_name()))
            .map_err(|error| {
                ToolError::internal(format!("What the session saw of files cannot be kept: {error}"))
                    .hint("Correct the permissions of $HELVE_HOME.")
            })?;
        let seen = SessionSeen {
            log,
            undo: self.undo()?,
            session: self.session.clone(),
            workspace: self.workspace_name(),
        };
        Ok(Arc::clone(self.seen.get_or_init(|| Arc::new(seen))))
    }

    /// The workspace as records name it.
    pub(crate) fn workspace_name(&self) -> String {
        self.workspace.to_string_lossy().into_owned()
    }

    pub(crate) fn net(&self) -> Option<Arc<dyn Egress>> {
        self.plugged_net.clone()
    }

    pub(crate) fn servers(&self) -> Option<Arc<dyn Servers>> {
        self.plugged_servers.clone()
    }

    /// The handle through which a tool reads outputs of earlier calls.
    pub(crate) fn earlier_outputs(self: &Arc<Self>) -> Arc<dyn helve_core::Blobs> {
        Arc::new(EarlierOutputs(Arc::clone(self)))
    }
}

/// The program that is the helper inside the sandbox: this one.
fn helper() -> Result<PathBuf, ToolError> {
    std::env::current_exe().map_err(|error| {
        ToolError::internal(format!("The path of this program cannot be had: {error}"))
            .hint("Write files.bridge = \"host\".")
    })
}

/// For a command whose output says nothing.
struct NoOutput;

impl OutputSink for NoOutput {
    fn chunk(&mut self, _stream: Stream, _bytes: &[u8]) {}
}

fn open_blobs(home: &Path, policy: &Policy) -> Result<Blobs, ToolError> {
    let open = Home::open(home).and_then(|home| Blobs::open(&home, policy.limits().blob_bytes));
    let open = open.map(|blobs| blobs.with_fsync(policy.fsync()));
    open.map_err(|error| {
        ToolError::internal(format!("The store of outputs cannot be opened: {error}"))
            .hint("Correct the permissions of $HELVE_HOME.")
    })
}

/// Reads blobs by their id or by the id of the call that made them. Disk and index are read off the async threads.
struct EarlierOutputs(Arc<Lanes>);

impl helve_core::Blobs for EarlierOutputs {
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<BlobRef, ToolError>> {
        let (lanes, name) = (Arc::clone(&self.0), name.to_owned());
        off_thread(move || find(&lanes, &name))
    }

    fn read<'a>(&'a self, id: &'a str, offset: u64, len: usize) -> BoxFuture<'a, Result<Vec<u8>, ToolError>> {
        let (lanes, id) = (Arc::clone(&self.0), id.to_owned());
        off_thread(move || {
            lanes.blobs()?.read_range(&id, offset, len).map_err(|error| match error {
                StoreError::BlobChanged(_) => ToolError::new(ErrorKind::Conflict, error.to_string()),
                error => ToolError::not_found(error.to_string()),
            })
        })
    }
}

fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> BoxFuture<'static, Result<T, ToolError>> {
    Box::pin(async move {
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|_| Err(ToolError::internal("Reading an earlier output crashed.")))
    })
}

fn find(lanes: &Lanes, name: &str) -> Result<BlobRef, ToolError> {
    let (id, dropped) = match name.starts_with("b3:") {
        true => (blob_of_session(lanes, name)?, 0),
        false => blob_of_call(lanes, name)?,
    };
    let bytes = lanes.blobs()?.len(&id).map_err(|_| {
        ToolError::not_found(format!("The output {id} is not kept any more."))
            .hint("Old outputs are removed to keep the store under its budget; run the command again.")
    })?;
    Ok(BlobRef { id, bytes, dropped })
}

/// A blob that a call of this session has. Others are another client's, or another's work.
fn blob_of_session(lanes: &Lanes, id: &str) -> Result<String, ToolError> {
    let home = Home::open(&lanes.home).map_err(unread)?;
    let mut index = Index::open(&home).map_err(unread)?;
    index.sync().map_err(unread)?;
    let of_session = Filter { session: Some(lanes.session.clone()), newest_first: true, ..Filter::default() };
    let cut = Filter { blob: Some(id.to_owned()), limit: Some(1), ..of_session.clone() };
    if !index.query(&cut).map_err(unread)?.is_empty() {
        return Ok(id.to_owned());
    }
    let commands = Filter { tool: Some(EXEC.to_owned()), limit: Some(MOST_COMMANDS), ..of_session };
    for row in index.query(&commands).map_err(unread)? {
        let story = index.story(&row.call).map_err(unread)?;
        if story.is_some_and(|story| story.session == lanes.session && has_taken_out(&story, id)) {
            return Ok(id.to_owned());
        }
    }
    Err(ToolError::not_found(format!("No call of this session has the output '{id}'."))
        .hint("Use the id from the field \"call\" of an earlier result of this session, such as c_01…."))
}

/// Whether a command left a file in a protected place whose content is kept under this id.
fn has_taken_out(story: &CallStory, id: &str) -> bool {
    let files = story.outcome.as_ref().and_then(|outcome| outcome["details"]["taken_out"].as_array());
    files.is_some_and(|files| files.iter().any(|file| file["blob"] == id))
}

fn unread(error: StoreError) -> ToolError {
    ToolError::internal(format!("The journal cannot be read: {error}"))
}

/// The blob of a call of this session, and how many bytes it lacks.
fn blob_of_call(lanes: &Lanes, call: &str) -> Result<(String, u64), ToolError> {
    let home = Home::open(&lanes.home).map_err(unread)?;
    let story = helve_store::read_call(&home, call).map_err(unread)?;
    let story = story.filter(|story| story.session == lanes.session).ok_or_else(|| {
        ToolError::not_found(format!("No call '{call}' is in the journal of this session."))
            .hint("Use the id from the field \"call\" of an earlier result, such as c_01….")
    })?;
    let outcome = story.outcome.as_ref().ok_or_else(|| {
        ToolError::not_found(format!("The call '{call}' has no result: it still runs, or was cut."))
    })?;
    let truncated = &outcome["truncated"];
    if let Some(blob) = truncated["blob"].as_str() {
        return Ok((blob.to_owned(), truncated["blob_dropped"].as_u64().unwrap_or(0)));
    }
    // What was not cut stands whole in the journal: it was cut later, in a talk that became too long.
    let kept = lanes.keep(&text_of(outcome)).map_err(|reason| {
        ToolError::internal(format!("The output of '{call}' cannot be kept to be read: {reason}"))
    })?;
    Ok((kept.id, kept.dropped))
}

/// The text of a result as the journal has it.
fn text_of(outcome: &Value) -> String {
    let blocks = outcome["content"].as_array().map_or(&[][..], Vec::as_slice);
    let texts =
        blocks.iter().filter_map(|block| block["text"].as_str().or(block["resource"]["text"].as_str()));
    texts.collect::<Vec<_>>().join("\n")
}
