//! From the global options to what commands work with: the policy, the directories, the runtime.
//!
//! Nothing here starts a process or opens the journal; that happens at the first call that needs it.

use std::future::Future;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve::mcp::Fleet;
use helve::store::Home;
use helve::{Caller, Cancel, Dialect, Policy, ProgressNote, Runtime, RuntimeBuilder, Servers, Sources};
use tokio::sync::mpsc;

use crate::args::Global;
use crate::failure::Failure;
use crate::interrupt::{self, Caught};
use crate::{approve, harmless, moment, ui, workspace_file};

/// The tool that runs commands.
pub(crate) const EXEC: &str = "exec";

/// Under this name calls of a model are recorded.
pub(crate) const AGENT: &str = "agent";

/// Progress notes that wait to be printed; more are dropped.
const PROGRESS_WAITING: usize = 64;

/// Where the owner's configuration comes from, without the workspace's own file.
pub(crate) fn sources(global: &Global) -> Sources {
    let mut sources = Sources { set: global.set.clone(), ..Sources::standard() };
    if let Some(file) = &global.config {
        sources.user = Some(file.clone());
        sources.user_required = true;
    }
    sources
}

/// What the owner allows, and what the workspace's own file tightens, if the owner trusts that.
pub(crate) fn policy(global: &Global) -> Result<Policy, Failure> {
    policy_with(global, Vec::new())
}

/// The same with more settings of the command line, each `key=value`.
pub(crate) fn policy_with(global: &Global, more: Vec<String>) -> Result<Policy, Failure> {
    let mut sources = all_sources(global)?;
    sources.set.extend(more);
    Policy::load(&sources).map_err(|error| Failure::usage(error.to_string()))
}

/// Where the configuration comes from: the owner's sources, and what the owner trusted of the workspace's file. Says what
/// there is to know about that file.
pub(crate) fn all_sources(global: &Global) -> Result<Sources, Failure> {
    let mut sources = sources(global);
    // A workspace that cannot be used is reported where one is needed.
    if let Ok(workspace) = workspace(global)
        && !is_users_file(&workspace, &sources)
    {
        let standing = workspace_file::standing(&workspace)?;
        sources.workspace = standing.trusted;
        if let Some(note) = standing.note {
            ui::note(&harmless::harmless(&note));
        }
    }
    Ok(sources)
}

/// Whether the owner named the workspace's file with `--config`, and so chose it already.
fn is_users_file(workspace: &Path, sources: &Sources) -> bool {
    let user = sources.user.as_deref().and_then(|file| file.canonicalize().ok());
    user.is_some() && user == workspace_file::path(workspace).canonicalize().ok()
}

/// The directory that tools work in.
pub(crate) fn workspace(global: &Global) -> Result<PathBuf, Failure> {
    let Some(dir) = &global.workspace else {
        return std::env::current_dir().map_err(|error| {
            Failure::usage(format!(
                "the current directory cannot be read ({error}): name a workspace with --workspace DIR"
            ))
        });
    };
    directory("workspace", dir, "--workspace")
}

/// A directory that an option names, by its real path.
pub(crate) fn directory(what: &str, dir: &Path, option: &str) -> Result<PathBuf, Failure> {
    let wrong = |why: &str| {
        let dir = dir.display();
        Failure::usage(format!(
            "the {what} {dir} cannot be used: {why}. Name an existing directory with {option} DIR"
        ))
    };
    let real = dir.canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => wrong("there is no such directory"),
        ErrorKind::NotADirectory => wrong("a part of its path is no directory"),
        _ => wrong(&error.to_string()),
    })?;
    if real.is_dir() { Ok(real) } else { Err(wrong("it is a file and no directory")) }
}

/// The state directory, opened.
pub(crate) fn home() -> Result<Home, Failure> {
    Ok(Home::open(&Home::default_path()?)?)
}

/// The same for a command that only looks: none where there is no state directory, which is not made.
pub(crate) fn existing_home() -> Result<Option<Home>, Failure> {
    let path = Home::default_path()?;
    Ok(if path.exists() { Some(Home::open(&path)?) } else { None })
}

/// The session that was named, by option or policy.
pub(crate) fn named_session(global: &Global, policy: &Policy) -> Option<String> {
    global.session.clone().or_else(|| policy.session().map(str::to_owned))
}

/// A runtime with every tool, for a command that only asks about them.
pub(crate) fn runtime(global: &Global) -> Result<Runtime, Failure> {
    runtime_with(global, policy(global)?)
}

/// The same with the tools in a dialect.
pub(crate) fn runtime_speaking(global: &Global, dialect: Option<Dialect>) -> Result<Runtime, Failure> {
    build(speaking(builder(global, policy(global)?)?, dialect))
}

/// The same with a policy that is loaded already.
pub(crate) fn runtime_with(global: &Global, policy: Policy) -> Result<Runtime, Failure> {
    build(builder(global, policy)?)
}

/// The MCP servers that the policy configures; none if there are none. Starts nothing.
pub(crate) fn fleet(global: &Global, policy: &Policy) -> Result<Option<Arc<Fleet>>, Failure> {
    let servers = policy.mcp_servers();
    if servers.is_empty() {
        return Ok(None);
    }
    let (workspace, home) = (workspace(global)?, Home::default_path()?);
    let keep = helve::mcp::keep(&home, policy, None);
    Ok(Some(helve::mcp::fleet_of(servers, policy, &workspace, &home, keep)))
}

fn builder(global: &Global, policy: Policy) -> Result<RuntimeBuilder, Failure> {
    let session = named_session(global, &policy).unwrap_or_else(moment::today);
    builder_for(global, policy, session, Caller::Owner)
}

/// A runtime with every tool of our own, on its way, for a session and a caller.
pub(crate) fn builder_for(
    global: &Global,
    policy: Policy,
    session: String,
    caller: Caller,
) -> Result<RuntimeBuilder, Failure> {
    let builder = Runtime::builder()
        .policy(policy)
        .workspace(workspace(global)?)
        .home(Home::default_path()?)
        .session(session)
        .caller(caller);
    let builder = helve::register_file_tools(helve::register_builtin_tools(builder));
    Ok(helve::register_container_tools(builder))
}

fn speaking(builder: RuntimeBuilder, dialect: Option<Dialect>) -> RuntimeBuilder {
    match dialect {
        Some(dialect) => builder.dialect(dialect),
        None => builder,
    }
}

/// Puts it together.
pub(crate) fn build(builder: RuntimeBuilder) -> Result<Runtime, Failure> {
    builder.build().map_err(|error| Failure::usage(error.to_string()))
}

/// A runtime that runs calls, and what takes them back.
pub(crate) struct Running {
    pub(crate) runtime: Runtime,
    pub(crate) cancel: Cancel,
    pub(crate) canceller: helve::CancelHandle,
    progress: mpsc::Receiver<ProgressNote>,
    /// Signals that nobody listens to yet.
    caught: Option<Caught>,
}

impl Running {
    /// Puts it together: Ctrl-C is caught, the person at the terminal is asked, progress is shown.
    pub(crate) fn new(global: &Global, policy: Policy) -> Result<Running, Failure> {
        Running::speaking(global, policy, None)
    }

    /// The same with the tools in a dialect.
    pub(crate) fn speaking(
        global: &Global,
        policy: Policy,
        dialect: Option<Dialect>,
    ) -> Result<Running, Failure> {
        Running::with(speaking(builder(global, policy)?, dialect), false)
    }

    /// The same for one call of a tool.
    pub(crate) fn for_call(
        global: &Global,
        policy: Policy,
        dialect: Option<Dialect>,
        tool: &str,
    ) -> Result<Running, Failure> {
        let builder = speaking(builder(global, policy)?, dialect);
        let runs_a_command = tool == EXEC;
        Running::with(builder.expect_command(runs_a_command).one_call(tool), runs_a_command)
    }

    /// The same for a model that calls, in this session.
    pub(crate) fn for_agent(global: &Global, policy: Policy, session: String) -> Result<Running, Failure> {
        let caller = Caller::Named(AGENT.to_owned());
        Running::with(builder_for(global, policy, session, caller)?, false)
    }

    /// The same with MCP servers behind it.
    pub(crate) fn with_servers(
        global: &Global,
        policy: Policy,
        dialect: Option<Dialect>,
        fleet: &Arc<Fleet>,
    ) -> Result<Running, Failure> {
        let servers = Arc::clone(fleet) as Arc<dyn Servers>;
        Running::with(speaking(builder(global, policy)?, dialect).servers(servers), false)
    }

    /// Where the work soon waits for a process, the thread for signals is started then: it is in nobody's way there.
    fn with(builder: RuntimeBuilder, waits_soon: bool) -> Result<Running, Failure> {
        let (canceller, cancel) = Cancel::pair();
        let (notes, progress) = mpsc::channel(PROGRESS_WAITING);
        let mut builder = builder.cancel(cancel.clone()).progress(notes);
        if let Some(person) = approve::person(&cancel, &canceller) {
            builder = builder.approver(Arc::new(person));
        }
        let runtime = build(builder)?;
        let caught = interrupt::catch()?;
        let caught = if waits_soon {
            Some(caught)
        } else {
            caught.listen(canceller.clone());
            None
        };
        Ok(Running { runtime, cancel, canceller, progress, caught })
    }

    /// Runs `work` to its end, showing progress meanwhile.
    pub(crate) fn block_on<T, W: Future<Output = T>>(
        self,
        work: impl FnOnce(Runtime, Cancel, helve::CancelHandle) -> W,
    ) -> Result<T, Failure> {
        let Running { runtime, cancel, canceller, mut progress, caught } = self;
        let on_signal = canceller.clone();
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::internal(format!("the event loop cannot start: {error}")))?;
        Ok(tokio.block_on(async {
            if let Some(caught) = caught {
                // Runs when the work first waits.
                tokio::spawn(async move { caught.listen(on_signal) });
            }
            tokio::spawn(async move {
                while let Some(note) = progress.recv().await {
                    ui::note(&format!("{}: {}", note.call, harmless::one_line(&note.message, 500)));
                }
            });
            work(runtime, cancel, canceller).await
        }))
    }
}
