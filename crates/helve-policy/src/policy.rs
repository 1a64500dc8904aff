//! The compiled policy: what every stage asks when it needs to know what the owner allows.
//!
//! In come [`Sources`], out come answers in the words of `helve_core`: limits, a view, a decision about a command, the
//! rule of a tool. Compiled once, shared by reference; nothing in it changes afterwards.

mod approval;
mod check;
mod compare;
mod confined;
mod container;
mod files;
mod judge;
mod model;
mod refused;
mod rules;
mod servers;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use helve_core::{ApprovalNeed, DenyRead, Limits, RateLimit, SandboxChoice};
use helve_shell::tree::Dialect;

use crate::config::hook::Hook;
use crate::config::keys;
use crate::config::layers::{self, Collector, ConfigError, Layer, Origin, Settings, Sources, WorkspaceFile};
use crate::config::model_keys;
use crate::config::server;
use crate::config::show::{self, Setting};
use crate::config::value::Value;
use crate::guard::{Guard, Opened, Pattern};
use crate::guarded;
use crate::rules::Rules;
use crate::secrets::{self, Secret, SecretSource};
use crate::view::{self, Surroundings};

pub use compare::{CaseOutcome, Change, PolicyCase, diff};
pub use files::{PathAct, PathDecision, PathUse};
pub use judge::RunBy;
pub use model::{AgentSettings, ModelPrice, ModelSettings};
pub use refused::{Grant, Refused, Rule as RefusedBy};
pub use rules::{ApprovalLength, RuleShown, ToolMeant};
pub use servers::ConfiguredServer;

/// What a command does to the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecMode {
    /// What it says.
    Direct,
    /// Nothing: what it would do is kept, to be committed or discarded.
    Preview,
    /// What it says, and it can be taken back.
    Checkpoint,
}

/// What the owner allows. Clones share one compiled policy.
#[derive(Clone)]
pub struct Policy {
    inner: Arc<Inner>,
}

impl fmt::Debug for Policy {
    /// Names nothing: the settings and the environment hold what must not be printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").finish_non_exhaustive()
    }
}

struct Inner {
    settings: Settings,
    limits: Limits,
    sandbox: SandboxChoice,
    guard: Guard,
    rules: Rules,
    /// The files of the configuration that were looked for.
    files: Vec<PathBuf>,
    /// The files that configure this policy, hold a secret or answer for the owner, as written.
    guarded: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    /// The patterns of `files.deny_read`; none if they cannot be read.
    deny_read: OnceLock<Option<DenyRead>>,
    shell: OnceLock<PathBuf>,
    dialect: OnceLock<Dialect>,
    exec_timeout: Duration,
    around: Surroundings,
    usual_roots: OnceLock<Vec<PathBuf>>,
}

/// What the owner says about one tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolRule {
    /// Whether it exists for callers.
    pub enabled: bool,
    /// When a person has to agree; none leaves it to the tool's declaration.
    pub approval: Option<ApprovalNeed>,
    /// Calls in any 60 seconds; none leaves it to the tool's declaration.
    pub per_minute: Option<u32>,
    /// Calls in any hour; none leaves it to the tool's declaration.
    pub per_hour: Option<u32>,
}

impl ToolRule {
    /// The rate limit in force for a tool that declares `declared`. A half that nobody names does not bind.
    pub fn rate(&self, declared: Option<RateLimit>) -> Option<RateLimit> {
        let minute = self.per_minute.or(declared.map(|limit| limit.per_minute));
        let hour = self.per_hour.or(declared.map(|limit| limit.per_hour));
        match (minute, hour) {
            (None, None) => None,
            (minute, hour) => Some(RateLimit {
                per_minute: minute.or(hour)?,
                per_hour: hour.or(minute.map(|calls| calls.saturating_mul(60)))?,
            }),
        }
    }
}

impl Policy {
    /// The defaults, without any file.
    pub fn builtin() -> Self {
        let settings = Settings::default();
        let seconds = Limits::default().exec_timeout_default;
        let timeout = Duration::from_secs(seconds);
        let rules = Rules::new(Vec::new(), None);
        Self::assemble(settings, rules, Vec::new(), Surroundings::current(), OnceLock::new(), timeout)
    }

    /// Reads and compiles all layers.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        Self::load_around(sources, Surroundings::current())
    }

    pub(crate) fn load_around(sources: &Sources, around: Surroundings) -> Result<Self, ConfigError> {
        let home = around.home();
        let mut collector = Collector::new(home.as_deref());
        collector.sources(sources);
        let settings = collector.finish()?;
        // The standard file is one of them also where `--config` stands in for it: the next call may read it.
        let standard = layers::user_file(|name| around.get(name).map(PathBuf::from));
        let files = [&sources.system, &sources.user, &standard].into_iter().flatten();
        let mut files: Vec<PathBuf> = files.filter_map(|path| std::path::absolute(path).ok()).collect();
        files.sort();
        files.dedup();
        Self::compile(settings, sources.workspace.as_ref(), files, around)
    }

    /// Compiles one text in place of the user's file; TOML, or JSON if it starts with `{`.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let around = Surroundings::current();
        let home = around.home();
        let mut collector = Collector::new(home.as_deref());
        collector.text(text, false, Origin { layer: Layer::User, file: None, line: None });
        Self::compile(collector.finish()?, None, Vec::new(), around)
    }

    /// `files` are those that the settings come from or may come from.
    fn compile(
        mut settings: Settings,
        workspace: Option<&WorkspaceFile>,
        files: Vec<PathBuf>,
        around: Surroundings,
    ) -> Result<Self, ConfigError> {
        let rules = rules::gather(&mut settings, workspace, around.home().as_deref())?;
        let timeout = exec_timeout(&settings, &limits(&settings))?;
        let shell = match settings.written(keys::EXEC_SHELL) {
            Some((Value::Text(wish), _)) if container::is_chosen(&settings) => {
                OnceLock::from(view::shell_of_image(wish))
            }
            Some((Value::Text(wish), origin)) => {
                let found = view::shell(Some(wish)).map_err(|problem| {
                    ConfigError::one(format!("`{}` in {origin}: {problem}", keys::EXEC_SHELL))
                })?;
                OnceLock::from(found)
            }
            _ if container::is_chosen(&settings) => OnceLock::from(view::shell_of_image("sh")),
            _ => OnceLock::new(),
        };
        let policy = Self::assemble(settings, rules, files, around, shell, timeout);
        policy.check_writable_roots()?;
        policy.check_passed_variables()?;
        policy.check_servers()?;
        Ok(policy)
    }

    fn assemble(
        settings: Settings,
        rules: Rules,
        files: Vec<PathBuf>,
        around: Surroundings,
        shell: OnceLock<PathBuf>,
        exec_timeout: Duration,
    ) -> Self {
        let limits = limits(&settings);
        let sandbox = match (text(&settings, keys::EXEC_WRAPPER), text(&settings, keys::SANDBOX)) {
            (Some(template), _) if !template.trim().is_empty() => {
                SandboxChoice::Wrapper { template: template.to_owned() }
            }
            (_, Some("none")) => SandboxChoice::None,
            (_, Some("container")) => SandboxChoice::Container(container::choice(&settings)),
            (_, Some("bwrap")) => SandboxChoice::Bwrap,
            (_, Some("landlock")) => SandboxChoice::Landlock,
            (_, Some("native")) => SandboxChoice::Native,
            _ => SandboxChoice::Auto,
        };
        let secrets = secret_sources(&settings).iter().filter_map(|source| match source {
            SecretSource::File(path) => Some(path.clone()),
            SecretSource::Env(_) => None,
        });
        let mut guarded = Vec::new();
        for file in files.iter().cloned().chain(secrets) {
            if !guarded.contains(&file) {
                guarded.push(file);
            }
        }
        let mut hidden = paths(&settings, keys::VIEW_HIDDEN);
        hidden.extend(guarded.iter().cloned());
        // Commands may run the programs that a hook is made of, but not change them.
        guarded.extend(approval::hook_files(list(&settings, keys::APPROVAL_HOOK)));
        guarded.extend(approval::hook_files(list(&settings, model_keys::KEY_COMMAND)));
        guarded.extend(hooks(&settings).iter().flat_map(|hook| approval::hook_files(&hook.program)));
        let guard = Guard {
            deny: patterns(&settings, keys::EXEC_DENY).unwrap_or_default(),
            ask: patterns(&settings, keys::EXEC_ASK).unwrap_or_default(),
            asks_inside: settings.written(keys::EXEC_ASK).is_some(),
            allow: patterns(&settings, keys::EXEC_ALLOW),
            restricted_by: [keys::RESTRICT, keys::EXEC_RESTRICT]
                .into_iter()
                .filter(|key| flag(&settings, key))
                .collect(),
            delete_inside: flag(&settings, keys::EXEC_DELETE_INSIDE),
            opened: Opened {
                read_only: paths(&settings, keys::VIEW_READ_ONLY),
                read_write: paths(&settings, keys::VIEW_READ_WRITE),
            },
            home: around.home(),
            own_files: guarded.clone(),
            protected: list(&settings, keys::VIEW_PROTECTED).to_vec(),
        };
        let usual_roots = OnceLock::new();
        let inner = Inner {
            settings,
            limits,
            sandbox,
            guard,
            rules,
            files,
            guarded,
            hidden,
            deny_read: OnceLock::new(),
            shell,
            dialect: OnceLock::new(),
            exec_timeout,
            around,
            usual_roots,
        };
        Policy { inner: Arc::new(inner) }
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Which sandbox commands run in.
    pub fn sandbox(&self) -> SandboxChoice {
        self.inner.sandbox.clone()
    }

    /// What a command does to the workspace.
    pub fn exec_mode(&self) -> ExecMode {
        let settings = &self.inner.settings;
        match (text(settings, keys::EXEC_MODE), flag(settings, keys::EXEC_CHECKPOINT)) {
            (Some("preview"), _) => ExecMode::Preview,
            (_, true) => ExecMode::Checkpoint,
            _ => ExecMode::Direct,
        }
    }

    /// Every place from which a file that configures this policy, holds a secret or answers for the owner can be changed
    /// or planted, absolute: the machine's file, the user's (the standard one and the one that stands in for it), the files
    /// of `secrets`, of `approval.hook` and of `hooks`, each with the links that lead to it. A directory that commands may write must
    /// hold none of them.
    pub fn guarded_files(&self) -> Vec<PathBuf> {
        let mut places: Vec<PathBuf> =
            self.inner.guarded.iter().flat_map(|file| guarded::places(file)).collect();
        places.sort();
        places.dedup();
        places
    }

    /// The shell that reads commands.
    pub fn shell(&self) -> &Path {
        // Looked up at the first use: most calls start no shell.
        self.inner.shell.get_or_init(|| view::shell(None).unwrap_or_else(|_| "/bin/sh".into()))
    }

    /// Whether calls that cannot disturb each other run at once.
    pub fn parallel(&self) -> bool {
        flag(&self.inner.settings, keys::PARALLEL)
    }

    /// Whether calls that need approval unless auto-approved go ahead.
    pub fn auto_approve(&self) -> bool {
        flag(&self.inner.settings, keys::AUTO_APPROVE)
    }

    /// Whether commands reach the network.
    pub fn commands_reach_network(&self) -> bool {
        flag(&self.inner.settings, keys::EXEC_NETWORK)
    }

    /// Whether the owner opened a path outside the workspace to commands.
    pub fn opens(&self, path: &Path) -> bool {
        let Opened { read_only, read_write } = &self.inner.guard.opened;
        read_only.iter().chain(read_write).any(|root| path.starts_with(root))
    }

    /// Whether each journal entry is forced to the disk.
    pub fn fsync(&self) -> bool {
        flag(&self.inner.settings, keys::FSYNC)
    }

    /// The session under which calls are recorded, where the owner names one.
    pub fn session(&self) -> Option<&str> {
        text(&self.inner.settings, keys::SESSION)
    }

    /// How long a command may run when the call does not say.
    pub fn exec_timeout(&self) -> Duration {
        self.inner.exec_timeout
    }

    /// Where commands start when the call does not say; relative to the workspace.
    pub fn working_dir(&self) -> Option<&str> {
        text(&self.inner.settings, keys::EXEC_WORKING_DIR).filter(|directory| !directory.is_empty())
    }

    /// What the owner says about a tool, by its own name.
    pub fn tool(&self, name: &str) -> ToolRule {
        let settings = &self.inner.settings;
        let written = |key: &str| settings.written(&format!("tools.{name}.{key}")).map(|(value, _)| value);
        let calls = |key: &str| match written(key) {
            Some(Value::Count(calls)) => u32::try_from(*calls).ok(),
            _ => None,
        };
        ToolRule {
            enabled: !matches!(written("enabled"), Some(Value::Bool(false))),
            approval: match written("approval") {
                Some(Value::Text(word)) => server::need(word),
                _ => None,
            },
            per_minute: calls("per_minute"),
            per_hour: calls("per_hour"),
        }
    }

    /// The tools that the configuration speaks of, each with the place of its first key, so that a name which no tool
    /// has can be reported.
    pub fn tools_named(&self) -> BTreeMap<&str, &Origin> {
        let mut named = BTreeMap::new();
        for (key, _, origin) in self.inner.settings.all_written() {
            let name = key.strip_prefix("tools.").and_then(|rest| rest.split_once('.'));
            // Which tools a server has is known when it runs.
            if let Some((name, _)) = name.filter(|(name, _)| !name.starts_with("mcp__")) {
                named.entry(name).or_insert(origin);
            }
        }
        named
    }

    /// Reads the values that must never be shown: those of `secrets`, what servers are given that is one by its name,
    /// and the keys of models that are in the environment.
    pub fn secrets(&self) -> Result<Vec<Secret>, ConfigError> {
        let variable = |name: &str| self.inner.around.variables.get(name).cloned();
        let mut secrets = secrets::read(secret_sources(&self.inner.settings), variable)?;
        secrets.extend(self.server_secrets());
        secrets.extend(self.model_secrets());
        Ok(secrets)
    }

    /// Every key with the value in force and the place that it came from.
    pub fn explain(&self) -> Vec<Setting> {
        show::explain(&self.inner.settings)
    }
}

/// How long a command may run when the call does not say: what the owner wrote, else the default, never above the
/// limit. An owner who writes more than the limit is told so.
fn exec_timeout(settings: &Settings, limits: &Limits) -> Result<Duration, ConfigError> {
    for key in [keys::EXEC_TIMEOUT, "limits.exec_timeout_default"] {
        if let Some((Value::Count(seconds), origin)) = settings.written(key) {
            if *seconds > limits.exec_timeout_max {
                return Err(ConfigError::one(format!(
                    "`{key}` in {origin}: {seconds} seconds are more than limits.exec_timeout_max, which is {}; \
                     lower the one or raise the other",
                    limits.exec_timeout_max
                )));
            }
            return Ok(Duration::from_secs(*seconds));
        }
    }
    Ok(Duration::from_secs(limits.exec_timeout_default.min(limits.exec_timeout_max)))
}

fn limits(settings: &Settings) -> Limits {
    let mut limits = Limits::default();
    for (key, value, _) in settings.all_written() {
        if let (Some(name), Value::Count(number)) = (key.strip_prefix("limits."), value) {
            limits.set(name, *number);
        }
    }
    limits.exec_timeout_default = limits.exec_timeout_default.min(limits.exec_timeout_max);
    limits
}

// The table of keys fixes the type of each value, so a reader only names the key.

fn flag(settings: &Settings, key: &str) -> bool {
    matches!(settings.get(key), Some(Value::Bool(true)))
}

fn text<'s>(settings: &'s Settings, key: &str) -> Option<&'s str> {
    match settings.get(key) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

fn list<'s>(settings: &'s Settings, key: &str) -> &'s [String] {
    match settings.get(key) {
        Some(Value::List(items)) => items,
        _ => &[],
    }
}

fn paths(settings: &Settings, key: &str) -> Vec<PathBuf> {
    list(settings, key).iter().map(PathBuf::from).collect()
}

fn patterns(settings: &Settings, key: &str) -> Option<Vec<Pattern>> {
    match settings.get(key) {
        Some(Value::Patterns(patterns)) => Some(patterns.clone()),
        _ => None,
    }
}

fn hooks(settings: &Settings) -> &[Hook] {
    match settings.get(keys::HOOKS) {
        Some(Value::Hooks(hooks)) => hooks,
        _ => &[],
    }
}

fn secret_sources(settings: &Settings) -> &[SecretSource] {
    match settings.get(keys::SECRETS) {
        Some(Value::Secrets(sources)) => sources,
        _ => &[],
    }
}

#[cfg(test)]
mod tests;
