//! The registry and the one pipeline that every tool call takes.
//!
//! In: a policy, a workspace, tools, and calls. Out: results, each recorded. [`Runtime`] is the whole face of it; the
//! stages are the files of `pipeline/`, and none of them can be reached from outside. A permit is made in `authorize`
//! and nowhere else; `execute` takes nothing but a permit; the registry hands out specs, never a tool.
//!
//! Deliberately not here: what a shell command means (`helve-shell`), what the owner allows (`helve-policy`), how a
//! command is confined (`helve-sandbox`), how the journal is kept (`helve-store`), the tools themselves (`helve-tools`).

mod approval;
mod builder;
mod call_id;
mod counts;
mod files;
mod hooks;
mod lanes;
mod pipeline;
mod program;
mod registry;
mod side;
mod workspace;

use std::sync::Arc;

use helve_core::{
    Args, Call, CallResult, CommandUse, Decision, FilesScope, SandboxReport, Tool, ToolError, ToolSpec,
};
use helve_policy::{HookEvent, Policy};
use helve_store::{UndoChange, UndoRecord};
use serde_json::Value;
use tokio::runtime::RuntimeFlavor;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use approval::{
    Answer, Approval, ApprovalRequest, Approver, AskedPart, Channel, EffectSummary, Grant, Headless, Lasting,
    OpaquePart, Questions, Scope, Script, channel,
};
pub use builder::{BuildError, RuntimeBuilder};
#[doc(hidden)]
pub use builder::{register_builtin, set_builtin_tools};
pub use counts::Counts;
pub use files::{Contents, UndoEntry, hold_layer};
pub use hooks::HookSaid;
use hooks::OfSession;
use pipeline::authorize::OwnAct;
use pipeline::{Admitted, Pipeline};
pub use pipeline::{AtOnce, KnownSecrets, Redactor, Stand, Taken, Waits};
pub use registry::{Quarantined, RegisterError, server_schema_faults};
use side::Side;
pub use side::{AskClock, CallScope};
pub use workspace::{check_workspace, check_writable};

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The owner at the command line: no rate limit but what the policy writes.
    Owner,
    /// Anybody else, by name.
    Named(String),
}

impl Caller {
    /// The name in the journal.
    pub fn name(&self) -> &str {
        match self {
            Caller::Owner => "owner",
            Caller::Named(name) => name,
        }
    }
}

/// A runtime: tools behind the pipeline. Cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    pipeline: Arc<Pipeline>,
}

/// Calls that are in the line, in call order.
pub struct Pending {
    pipeline: Arc<Pipeline>,
    admitted: Vec<Admitted>,
}

impl Runtime {
    /// Starts to put one together.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// Takes one call through the pipeline.
    pub async fn call(&self, call: Call) -> CallResult {
        *self.begin_by(call, Arc::clone(&self.pipeline.side)).await
    }

    /// The same with what is particular to this call. It ends when its own cancellation fires or the runtime's.
    pub async fn call_in(&self, call: Call, scope: CallScope) -> CallResult {
        *self.begin(call, scope).await
    }

    /// The same for who will surely wait for it: the policy decides on the call at once, so that nothing of what it came with
    /// has to be kept until then.
    pub fn begin(&self, call: Call, scope: CallScope) -> impl Future<Output = Box<CallResult>> + Send {
        let side = self.pipeline.side.within(scope, self.pipeline.hook.as_ref());
        self.begin_by(call, Arc::new(side))
    }

    fn begin_by(&self, call: Call, side: Arc<Side>) -> impl Future<Output = Box<CallResult>> + Send {
        let looked = self.pipeline.look_at(call, &side);
        async move {
            match self.pipeline.admit_one(looked, &side).await {
                // Boxed: what holds this is copied each time that it is handed on, and the work itself is large.
                Admitted::Ready(ready) => Box::pin(self.pipeline.finish(ready)).await,
                Admitted::Refused(result) => result,
            }
        }
    }

    /// What takes calls of one caller together whose work is done at once, or a server's.
    pub fn at_once(&self, scope: CallScope) -> AtOnce {
        AtOnce::new(Arc::clone(&self.pipeline), self.pipeline.side.within(scope, self.pipeline.hook.as_ref()))
    }

    /// Takes the calls of one model turn through the pipeline; results come in call order.
    pub async fn batch(&self, calls: Vec<Call>) -> Vec<CallResult> {
        self.admit(calls).await.results().await
    }

    /// The same with what is particular to this batch.
    pub async fn batch_in(&self, calls: Vec<Call>, scope: CallScope) -> Vec<CallResult> {
        let side = self.pipeline.side.within(scope, self.pipeline.hook.as_ref());
        self.admit_by(calls, &Arc::new(side)).await.results().await
    }

    /// The same, with each result handed over as soon as its call ends, together with the place of the call.
    pub async fn batch_each(
        &self,
        calls: Vec<Call>,
        scope: CallScope,
        done: impl FnMut(usize, CallResult) + Send,
    ) {
        let side = self.pipeline.side.within(scope, self.pipeline.hook.as_ref());
        self.admit_by(calls, &Arc::new(side)).await.each(done).await;
    }

    /// Takes calls up to their places in the line and no further. [`Pending::results`] runs them; several pendings may
    /// run at once and overlap where their access allows. A pending that is neither run nor dropped holds its places, and
    /// later calls that conflict with it wait.
    pub async fn admit(&self, calls: Vec<Call>) -> Pending {
        self.admit_by(calls, &self.pipeline.side).await
    }

    async fn admit_by(&self, mut calls: Vec<Call>, side: &Arc<Side>) -> Pending {
        let limit = self.policy().limits().batch_calls;
        let beyond = calls.split_off(calls.len().min(usize::try_from(limit).unwrap_or(usize::MAX)));
        let mut admitted = self.pipeline.admit(calls, side).await;
        let refused = |call| Admitted::Refused(Box::new(self.pipeline.too_many(call, side, limit)));
        admitted.extend(beyond.into_iter().map(refused));
        Pending { pipeline: Arc::clone(&self.pipeline), admitted }
    }

    /// What a tool would get: normalized and valid arguments, or every problem. Nothing is authorized, run or recorded.
    pub fn arguments(&self, tool: &str, args: Args) -> Result<Value, ToolError> {
        self.pipeline.arguments(tool, args)
    }

    /// The declarations of the enabled tools, in the dialect if calls come in one, sorted by name.
    pub fn specs(&self) -> impl Iterator<Item = Arc<ToolSpec>> + use<> {
        self.pipeline.registry.now().shown(&self.pipeline.authority.policy).into_iter()
    }

    /// Tools that are kept out because of their schema.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        self.pipeline.registry.now().quarantined().to_vec()
    }

    /// Puts tools in the place of those that were set under the same group before, at once: no call sees half of them. A
    /// running call keeps the tool that it was given. Each tool has its own answer; the others are taken all the same.
    pub fn set_tools(&self, group: &str, tools: Vec<Box<dyn Tool>>) -> Vec<Result<(), RegisterError>> {
        self.pipeline.registry.set(group, tools, false)
    }

    /// Counts the changes of the tools; whoever shows them can wait for the next.
    pub fn tools_version(&self) -> watch::Receiver<u64> {
        self.pipeline.registry.version()
    }

    /// The decision on a command, as a call of `exec` would get it. Nothing is run, asked or recorded.
    pub fn check(&self, command: &str, working_dir: Option<&str>) -> Decision {
        let working_dir = working_dir.map(str::to_owned);
        self.pipeline.check(CommandUse { command: command.to_owned(), working_dir })
    }

    /// What the policy says of a call of any tool: normalized, validated and decided as a call would be. Answers that the
    /// owner gave before do not count, nor do rate limits. Nothing is asked, run or recorded.
    pub fn decide(&self, call: Call) -> Decision {
        self.pipeline.decide(call, &self.pipeline.side)
    }

    /// The same with what is particular to this call.
    pub fn decide_in(&self, call: Call, scope: CallScope) -> Decision {
        let side = self.pipeline.side.within(scope, self.pipeline.hook.as_ref());
        self.pipeline.decide(call, &Arc::new(side))
    }

    /// Tells the owner's hooks that a session begins, `resumed` if it goes on with one before, and gives what they say. A
    /// runtime is one session: what is told again before its end is not told.
    pub async fn session_starts(&self, resumed: bool) -> Vec<HookSaid> {
        let caller = self.pipeline.side.caller.name();
        let of = OfSession { caller, resumed: Some(resumed), ending: None };
        self.pipeline.session(HookEvent::SessionStart, of).await
    }

    /// The same for its end, if they heard of its start; `ending` says in a word how it ended.
    pub async fn session_ends(&self, ending: &str) -> Vec<HookSaid> {
        let caller = self.pipeline.side.caller.name();
        let of = OfSession { caller, resumed: None, ending: Some(ending) };
        self.pipeline.session(HookEvent::SessionEnd, of).await
    }

    /// The policy in force.
    pub fn policy(&self) -> &Policy {
        &self.pipeline.authority.policy
    }

    /// A text without the secrets that the policy knows.
    pub fn without_secrets(&self, text: &str) -> String {
        self.pipeline.governor.redact(text)
    }

    /// Takes the secrets that the policy knows out of a text that comes in pieces.
    pub fn redactor(&self) -> Redactor {
        Redactor::new(self.pipeline.governor.secrets.as_ref())
    }

    /// Takes the secrets that the policy knows out of a value.
    pub fn hide_secrets(&self, value: &mut Value) {
        self.pipeline.governor.clean_value(value);
    }

    /// Finds out what became of calls whose process died while they changed files of this workspace, and says it for
    /// people; each is told once, here or with the first call that uses files.
    pub async fn settle(&self) -> Result<Vec<String>, ToolError> {
        self.pipeline.lanes.cut_calls().await
    }

    /// The calls that changed files of this workspace and can be looked at or undone, the newest first.
    pub fn file_calls(&self) -> Result<Vec<UndoEntry>, ToolError> {
        let lanes = &self.pipeline.lanes;
        files::entries(&lanes.undo()?, &lanes.workspace_name())
    }

    /// What one call changed in this workspace.
    pub fn file_call(&self, call: &str) -> Result<UndoEntry, ToolError> {
        let lanes = &self.pipeline.lanes;
        files::entry(&lanes.undo()?, call, &lanes.workspace_name())
    }

    /// The versions of one file around a call.
    pub async fn file_contents(&self, change: &UndoChange) -> Result<Contents, ToolError> {
        let lanes = &self.pipeline.lanes;
        // It is the owner who looks.
        let handle = lanes.files()?.scoped(FilesScope { whole: true, ..FilesScope::default() });
        files::contents(&*handle, &lanes.undo()?, change, self.policy().limits().file_bytes).await
    }

    /// Puts back what was there before a call. It is the owner's own act: no rule is asked, and no session has seen what
    /// is there then. With `force` what came after the call is lost, else that is a conflict. It is recorded, and can be
    /// undone like any call.
    pub async fn undo(&self, call: &str, force: bool) -> Result<CallResult, ToolError> {
        let entry = self.file_call(call)?;
        let undo = self.pipeline.lanes.undo()?;
        let act =
            OwnAct::Undo { call: call.to_owned(), layered: entry.record.layered, is_undone: entry.undone };
        let put_back = files::put_back::PutBack::new(entry, undo, force);
        Ok(self.pipeline.own(put_back, act).await)
    }

    /// The calls of this workspace whose changes wait to be committed or discarded, the newest first.
    pub fn pending_calls(&self) -> Result<Vec<UndoRecord>, ToolError> {
        let lanes = &self.pipeline.lanes;
        files::pending::all(&lanes.undo()?, &lanes.workspace_name())
    }

    /// Puts what a call would change into the workspace: all of it, or nothing where something was changed since the call
    /// ran. It is the owner's own act, recorded, and can be undone like any call.
    pub async fn commit(&self, call: &str) -> Result<CallResult, ToolError> {
        let lanes = &self.pipeline.lanes;
        let record = files::pending::one(&lanes.undo()?, call, &lanes.workspace_name())?;
        let commit = files::pending::Commit::new(record, lanes.undo()?);
        Ok(self.pipeline.own(commit, OwnAct::Commit { call: call.to_owned() }).await)
    }

    /// Drops what a call would change.
    pub async fn discard(&self, call: &str) -> Result<CallResult, ToolError> {
        let lanes = &self.pipeline.lanes;
        let record = files::pending::one(&lanes.undo()?, call, &lanes.workspace_name())?;
        let discard = files::pending::Discard::new(record, lanes.undo()?);
        Ok(self.pipeline.own(discard, OwnAct::Discard { call: call.to_owned() }).await)
    }

    /// The sandbox that a command would run in, or why none could, as far as that shows without running one.
    pub fn sandbox(&self) -> Result<SandboxReport, ToolError> {
        let shell = self.pipeline.lanes.shell()?;
        shell.ready()?;
        Ok(shell.report())
    }

    /// Runs the shell's empty command as `exec` would run one, and gives the layers that were really on. Nothing is decided
    /// or recorded: it is the owner's question, not a call.
    pub async fn try_sandbox(&self) -> Result<SandboxReport, ToolError> {
        self.pipeline.lanes.try_shell().await
    }
}

impl Pending {
    /// Runs the calls to their ends; results come in call order.
    pub async fn results(self) -> Vec<CallResult> {
        let mut results: Vec<Option<CallResult>> = self.admitted.iter().map(|_| None).collect();
        self.each(|at, result| results[at] = Some(result)).await;
        results.into_iter().flatten().collect()
    }

    /// Runs the calls to their ends, and hands over each result, with the place of its call, as soon as there is one.
    pub async fn each(self, mut done: impl FnMut(usize, CallResult) + Send) {
        let Pending { pipeline, mut admitted } = self;
        if admitted.len() == 1 {
            match admitted.pop() {
                Some(Admitted::Ready(ready)) => done(0, *Box::pin(pipeline.finish(ready)).await),
                Some(Admitted::Refused(result)) => done(0, *result),
                None => {}
            }
            return;
        }
        // Each place is filled, whatever happens: a call whose own result never comes has one that says so.
        let mut lost: Vec<Option<CallResult>> = admitted.iter().map(Admitted::lost).collect();
        let mut running = JoinSet::new();
        for (at, call) in admitted.into_iter().enumerate() {
            match call {
                Admitted::Refused(result) => done(at, *result),
                Admitted::Ready(ready) => {
                    let pipeline = Arc::clone(&pipeline);
                    running.spawn(async move { (at, *Box::pin(pipeline.finish(ready)).await) });
                }
            }
        }
        while let Some(ended) = running.join_next().await {
            if let Ok((at, result)) = ended {
                lost[at] = None;
                done(at, result);
            }
        }
        for (at, lost) in lost.into_iter().enumerate() {
            if let Some(result) = lost {
                done(at, result);
            }
        }
    }
}

/// Runs work that waits for a disk, without holding up other tasks where the async runtime has other threads.
pub(crate) fn off_async<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// The name most like `wanted`, if one is alike enough to be meant.
pub(crate) fn nearest<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    if wanted.len() > 64 {
        return None;
    }
    let key = |name: &str| name.to_lowercase().replace(['-', '_', '.', ' '], "");
    let wanted = key(wanted);
    names
        .map(|name| (strsim::jaro_winkler(&wanted, &key(name)), name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
