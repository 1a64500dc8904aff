//! Puts a [`Runtime`] together. Opens nothing and starts nothing: each lane is opened at its first need.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use helve_core::context::ProgressNote;
use helve_core::{Cancel, Dialect, Egress, FilesBridge, Peer, Servers, ShellBackend, Tool};
use helve_policy::{ConfigError, Policy};
use helve_store::{Home, StoreError, newest_undo};
use tokio::sync::mpsc;

use crate::approval::Approver;
use crate::approval::grants::Grants;
use crate::approval::hook::Hook;
use crate::counts::Counts;
use crate::hooks::Hooks;
use crate::lanes::Lanes;
use crate::pipeline::authorize::Authority;
use crate::pipeline::govern::Governor;
use crate::pipeline::govern::redact::Secrets;
use crate::pipeline::schedule::Scheduler;
use crate::pipeline::{Executor, Pipeline, Recorder};
use crate::registry::{Live, RegisterError, Registry, is_dynamic, is_protected};
use crate::side::{self, Side};
use crate::{Caller, Runtime, call_id};

/// Why a runtime could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A tool was not taken.
    #[error("{0}")]
    Register(#[from] RegisterError),
    /// A rule names a tool by an alias and would have no effect.
    #[error("{origin}: '{alias}' is another name of the tool '{tool}'; write [tools.{tool}]")]
    RuleForAlias {
        /// The name in the policy.
        alias: String,
        /// The tool's own name.
        tool: String,
        /// Where it is written.
        origin: String,
    },
    /// A rule or a hook names a tool by an alias and would hold for nothing.
    #[error(
        "{origin}: '{alias}' is another name of the tool '{tool}', so this would hold for no call; write '{tool}'"
    )]
    AliasNamed {
        /// The name in the policy.
        alias: String,
        /// The tool's own name.
        tool: String,
        /// Where it is written.
        origin: String,
    },
    /// A rule or a hook names a tool that does not exist.
    #[error("{origin}: there is no tool '{name}'{}", did_you_mean(nearest.as_deref()))]
    RuleForNobody {
        /// The name in the policy.
        name: String,
        /// The tool that may be meant.
        nearest: Option<String>,
        /// Where it is written.
        origin: String,
    },
    /// A caller other than the owner cannot be called so.
    #[error("the caller's name 'owner' is the owner's own; choose another")]
    ReservedCaller,
    /// A secret that the policy names could not be read.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// A program that answers for the owner, or hears of calls, could be changed by commands.
    #[error("{key}: {path} lies in the workspace, where commands can change it; keep it elsewhere")]
    HookInWorkspace {
        /// The key, and for one of several hooks its name.
        key: String,
        /// The word of the key that names it.
        path: String,
    },
    /// The session has a secret in its name, which names files.
    #[error(
        "the session's name holds the secret {0}, and would show it as the name of files; choose another"
    )]
    SecretInSession(String),
    /// There is no place for Helve's state.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The current directory cannot be read.
    #[error("the current directory cannot be read ({0}); name a workspace")]
    CurrentDir(std::io::Error),
}

/// Refuses a rule or a hook that names a tool which is not there: it would hold for nothing, and nobody would notice.
fn check_meant(policy: &Policy, registry: &Registry) -> Result<(), BuildError> {
    for meant in policy.tools_meant() {
        if meant.may_come() || registry.names().any(|name| meant.is(name)) {
            continue;
        }
        let origin = meant.origin.to_string();
        if let Some((alias, tool)) = registry.aliases().find(|(alias, _)| meant.is(alias)) {
            return Err(BuildError::AliasNamed { alias: alias.to_owned(), tool: tool.to_owned(), origin });
        }
        if !is_protected(meant.name) {
            let nearest = crate::nearest(meant.name, registry.names()).map(str::to_owned);
            return Err(BuildError::RuleForNobody { name: meant.name.to_owned(), nearest, origin });
        }
    }
    Ok(())
}

fn did_you_mean(name: Option<&str>) -> String {
    name.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}

/// Tools that are made when the policy is known.
type BuiltinTools = fn(&Policy) -> Vec<Box<dyn Tool>>;

/// Adds tools that may bear protected names, made when the policy is known; `names` are theirs. The library face calls it
/// and does not export it: nothing else may take such a name.
#[doc(hidden)]
#[must_use]
pub fn register_builtin(
    mut builder: RuntimeBuilder,
    names: &'static [&'static str],
    tools: BuiltinTools,
) -> RuntimeBuilder {
    builder.builtin.push((names, tools));
    builder
}

/// Like [`Runtime::set_tools`], for tools that may bear protected names. The library face does not export it.
#[doc(hidden)]
pub fn set_builtin_tools(
    runtime: &Runtime,
    group: &str,
    tools: Vec<Box<dyn Tool>>,
) -> Vec<Result<(), RegisterError>> {
    runtime.pipeline.registry.set(group, tools, true)
}

/// Puts a [`Runtime`] together.
#[derive(Default)]
pub struct RuntimeBuilder {
    policy: Option<Policy>,
    workspace: Option<PathBuf>,
    home: Option<PathBuf>,
    session: Option<String>,
    caller: Option<Caller>,
    approver: Option<Arc<dyn Approver>>,
    progress: Option<mpsc::Sender<ProgressNote>>,
    cancel: Option<Cancel>,
    counts: Counts,
    shell: Option<Arc<dyn ShellBackend>>,
    files: Option<Arc<dyn FilesBridge>>,
    net: Option<Arc<dyn Egress>>,
    servers: Option<Arc<dyn Servers>>,
    peer: Option<Arc<dyn Peer>>,
    secrets: Vec<(String, String)>,
    expects_command: bool,
    one_call: Option<String>,
    builtin: Vec<(&'static [&'static str], BuiltinTools)>,
    tools: Vec<Box<dyn Tool>>,
    dialect: Option<Dialect>,
}

impl RuntimeBuilder {
    /// What the owner allows; the built-in policy if not given.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// The workspace; the current directory if not given.
    #[must_use]
    pub fn workspace(mut self, dir: impl Into<PathBuf>) -> Self {
        self.workspace = Some(dir.into());
        self
    }

    /// Where journal, blobs and index live; `$HELVE_HOME` or its default if not given.
    #[must_use]
    pub fn home(mut self, dir: impl Into<PathBuf>) -> Self {
        self.home = Some(dir.into());
        self
    }

    /// The session whose journal the calls enter; the policy's, else `default`.
    #[must_use]
    pub fn session(mut self, name: impl Into<String>) -> Self {
        self.session = Some(name.into());
        self
    }

    /// Who calls; `library` if not given.
    #[must_use]
    pub fn caller(mut self, caller: Caller) -> Self {
        self.caller = Some(caller);
        self
    }

    /// Who is asked; nobody if not given, and then what must be asked is refused.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Where tools report progress.
    #[must_use]
    pub fn progress(mut self, to: mpsc::Sender<ProgressNote>) -> Self {
        self.progress = Some(to);
        self
    }

    /// What takes every running call back.
    #[must_use]
    pub fn cancel(mut self, cancel: Cancel) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// What is counted of callers together with other runtimes; by itself if not given.
    #[must_use]
    pub fn counts(mut self, counts: Counts) -> Self {
        self.counts = counts;
        self
    }

    /// A sandbox of the embedding program's own, instead of the one that the policy chooses.
    #[must_use]
    pub fn shell(mut self, backend: Arc<dyn ShellBackend>) -> Self {
        self.shell = Some(backend);
        self
    }

    /// Says that the first call will run a command, so that its sandbox makes ready while the rest is put together.
    #[must_use]
    pub fn expect_command(mut self, expected: bool) -> Self {
        self.expects_command = expected;
        self
    }

    /// Says that there will be one call, and of which tool: where it is one of ours, only it and its like are made. That
    /// takes a part of the time that all of them take.
    #[must_use]
    pub fn one_call(mut self, tool: impl Into<String>) -> Self {
        self.one_call = Some(tool.into());
        self
    }

    /// The bridge that tools of the files lane get, instead of the workspace on this machine.
    #[must_use]
    pub fn files(mut self, files: Arc<dyn FilesBridge>) -> Self {
        self.files = Some(files);
        self
    }

    /// The way out that tools get.
    #[must_use]
    pub fn net(mut self, net: Arc<dyn Egress>) -> Self {
        self.net = Some(net);
        self
    }

    /// What reaches MCP servers. A tool of the lane `mcp` gets of it the one tool that it stands for.
    #[must_use]
    pub fn servers(mut self, servers: Arc<dyn Servers>) -> Self {
        self.servers = Some(servers);
        self
    }

    /// The program at the other end of every call that comes without one of its own.
    #[must_use]
    pub fn peer(mut self, peer: Arc<dyn Peer>) -> Self {
        self.peer = Some(peer);
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn register(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Box::new(tool));
        self
    }

    /// A value, with its name, that never reaches a model or the journal, beside those of the policy. Can be called again.
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.secrets.push((name.into(), value.into()));
        self
    }

    /// Shows tools and takes calls in a dialect. Tools that it does not have keep their own names.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = Some(dialect);
        self
    }

    /// Puts it together.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let policy = self.policy.unwrap_or_else(Policy::builtin);
        let workspace = match self.workspace {
            Some(dir) => dir,
            None => std::env::current_dir().map_err(BuildError::CurrentDir)?,
        };
        let home = match self.home {
            Some(home) => home,
            None => Home::default_path()?,
        };
        // A relative path would mean another place after a change of directory.
        let absolute = |path: PathBuf| std::path::absolute(&path).map_err(BuildError::CurrentDir);
        let (workspace, home) = (absolute(workspace)?, absolute(home)?);
        let workspace = workspace.canonicalize().unwrap_or(workspace);
        if let Some(newest) = newest_undo(&home) {
            call_id::not_before(&newest);
        }
        let session =
            self.session.or_else(|| policy.session().map(str::to_owned)).unwrap_or_else(|| "default".into());
        let lanes = Arc::new(Lanes {
            policy: policy.clone(),
            workspace: workspace.clone(),
            home: home.clone(),
            plugged_shell: self.shell,
            plugged_files: self.files,
            plugged_net: self.net,
            plugged_servers: self.servers,
            session: session.clone(),
            shell: OnceLock::new(),
            files: OnceLock::new(),
            undo: OnceLock::new(),
            seen: OnceLock::new(),
            blobs: OnceLock::new(),
            kept: AtomicU64::new(0),
            cut_told: AtomicBool::new(false),
        });
        if self.expects_command
            && let Ok(shell) = lanes.shell()
        {
            shell.prepare();
        }
        let mut registry = Registry::default();
        // Rules and dialects name any tool.
        let ours = |name: &str| self.builtin.iter().any(|(names, _)| names.contains(&name));
        let is_plain = policy.tools_named().is_empty()
            && policy.tools_meant().iter().all(|meant| ours(meant.name) || meant.may_come());
        let one = self.one_call.filter(|_| self.dialect.is_none() && is_plain);
        let has_it = |names: &[&str]| one.as_deref().is_some_and(|tool| names.contains(&tool));
        let is_ours = self.builtin.iter().any(|(names, _)| has_it(names));
        for (_, make) in self.builtin.iter().filter(|(names, _)| !is_ours || has_it(names)) {
            for tool in make(&policy) {
                registry.register_builtin(tool)?;
            }
        }
        for tool in self.tools {
            registry.register(tool)?;
        }
        if let Some(dialect) = self.dialect {
            registry.speak(dialect);
        }
        for (name, origin) in policy.tools_named() {
            let known = registry.get(name).is_some() || registry.by_alias(name).is_some();
            if !known && !is_protected(name) && !is_dynamic(name) {
                let nearest = crate::nearest(name, registry.names()).map(str::to_owned);
                return Err(BuildError::RuleForNobody {
                    name: name.to_owned(),
                    nearest,
                    origin: origin.to_string(),
                });
            }
            if let Some(entry) = registry.by_alias(name) {
                let (alias, tool) = (name.to_owned(), entry.spec().name.clone());
                return Err(BuildError::RuleForAlias { alias, tool, origin: origin.to_string() });
            }
        }
        if one.is_none() {
            check_meant(&policy, &registry)?;
        }
        let caller = self.caller.unwrap_or_else(|| Caller::Named("library".to_owned()));
        if caller == Caller::Named(Caller::Owner.name().to_owned()) {
            return Err(BuildError::ReservedCaller);
        }
        let given = self.secrets.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let secrets = Secrets::of(&policy, &given.collect::<Vec<_>>())?;
        let governor = Arc::new(Governor { secrets, limits: Arc::new(policy.limits().clone()) });
        let shown = governor.redact(&session);
        if shown != session {
            return Err(BuildError::SecretInSession(shown));
        }
        let place = governor.redact(&workspace.to_string_lossy());
        let outputs = lanes.earlier_outputs();
        let executor = Executor { lanes: Arc::clone(&lanes), governor: Arc::clone(&governor), outputs };
        let hook = match policy.approval_hook() {
            Some(words) => {
                outside("`approval.hook`", words, &workspace)?;
                Some(Arc::new(Hook::new(words, policy.approval_hook_timeout())) as Arc<dyn Approver>)
            }
            None => None,
        };
        for hook in policy.hooks() {
            outside(&format!("`hooks`, {:?}", hook.name), &hook.program, &workspace)?;
        }
        let side = Arc::new(Side {
            caller,
            client: None,
            approver: side::approver(self.approver, hook.as_ref()),
            cancel: self.cancel.unwrap_or_default(),
            progress: self.progress,
            live: false,
            peer: self.peer,
            asked: None,
            tainted: None,
            beside: false,
        });
        let pipeline = Pipeline {
            registry: Live::new(registry),
            side,
            hook,
            hooks: Hooks::new(&policy, &session, &workspace),
            scheduler: Scheduler::new(policy.parallel(), policy.limits().workers),
            executor,
            governor,
            recorder: Recorder::new(home.clone(), session.clone(), place, policy.fsync()),
            lanes,
            authority: Authority {
                grants: Grants::new(home, session.clone(), workspace.clone()),
                counts: self.counts,
                policy,
                workspace,
                session,
            },
        };
        Ok(Runtime { pipeline: Arc::new(pipeline) })
    }
}

/// Refuses a program of the owner's that a command could write: it must not answer for the owner.
fn outside(key: &str, words: &[String], workspace: &Path) -> Result<(), BuildError> {
    let inside = |word: &&String| {
        let path = Path::new(word);
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        path.starts_with(workspace) || real.starts_with(workspace)
    };
    match words.iter().find(inside) {
        Some(word) => Err(BuildError::HookInWorkspace { key: key.to_owned(), path: word.clone() }),
        None => Ok(()),
    }
}
