//! MCP servers behind a runtime: each in a sandbox of its own, its tools among the runtime's.
//!
//! In: the policy, which says what a server may do, and what is kept of servers ([`Keep`]). Out: a [`Fleet`], which starts
//! nothing by itself, and a [`Gateway`], which keeps a runtime's tools in step with it.
//!
//! A server sees what a command sees, and the workspace as the owner says: not at all, to read, or to change. It changes
//! nothing else but what the owner names; it has the network only if the owner gives it; its environment holds what the
//! owner names and what any program needs. Where the sandbox cannot be had it is not started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use helve_core::servers::{StdioServer, WorkspaceUse};
use helve_core::{
    Explain, Network, ProcessLimits, SandboxChoice, ServerSpec, ShellBackend, Tool, ToolError, ToolSpec, View,
};
use helve_mcp::client::{
    Definition, Fleet, FleetLimits, FleetParts, Hide, Launched, Owner, PinStore, ServerLog, Shelf,
    TokenStore, ToolSearch,
};
use helve_policy::Policy;
use helve_runtime::{
    KnownSecrets, Runtime, check_workspace, check_writable, server_schema_faults, set_builtin_tools,
};

/// Variables of a command's environment that any program needs; the owner's others are for commands, not for servers.
const NEEDED: [&str; 12] = [
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "TERM",
    "SHELL",
    "USER",
    "LOGNAME",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
];
/// A server runs as long as Helve does: neither its processor time nor what the rest of the machine does to the disk
/// meanwhile says anything about it.
const NO_SECONDS: u64 = 1 << 40;
const NO_BYTES: u64 = 1 << 62;
/// Where in the state directory a server that does not see the workspace has a directory of its own.
const SCRATCH: &str = "mcp/scratch";
/// The groups of the runtime's tools.
const TOOLS: &str = "mcp";
const SEARCH: &str = "mcp-search";
const ASKING: &str = "mcp-asking";

/// What is kept of servers, and who is there.
pub struct Keep {
    /// What the owner has agreed to.
    pub pins: Arc<dyn PinStore>,
    /// What sign-ins gave.
    pub tokens: Arc<dyn TokenStore>,
    /// What servers say and what happens to them.
    pub log: Arc<dyn ServerLog>,
    /// The owner, where one is there to sign in.
    pub owner: Option<Arc<dyn Owner>>,
}

/// The servers that the policy configures. Starts nothing and touches nothing.
pub fn fleet(policy: &Policy, workspace: &Path, home: &Path, keep: Keep) -> Arc<Fleet> {
    fleet_of(policy.mcp_servers(), policy, workspace, home, keep)
}

/// Servers under a policy's rules for processes.
pub fn fleet_of(
    servers: Vec<ServerSpec>,
    policy: &Policy,
    workspace: &Path,
    home: &Path,
    keep: Keep,
) -> Arc<Fleet> {
    let ground = Ground { policy: policy.clone(), workspace: workspace.to_owned(), home: home.to_owned() };
    let contains = !matches!(policy.sandbox(), SandboxChoice::None | SandboxChoice::Wrapper { .. });
    let parts = FleetParts {
        launch: Arc::new(move |server, stdio| ground.launch(server, stdio)),
        contains,
        pins: keep.pins,
        tokens: keep.tokens,
        log: keep.log,
        hide: hiding(policy),
        owner: keep.owner,
        workspace: workspace.canonicalize().ok(),
        limits: FleetLimits::default(),
    };
    Fleet::new(servers, parts)
}

/// Takes the secrets that the policy knows out of what servers say. They are read when something is said.
fn hiding(policy: &Policy) -> Hide {
    let (policy, known) = (policy.clone(), OnceLock::new());
    Arc::new(move |said| {
        if let Some(known) = known.get_or_init(|| KnownSecrets::of(&policy).ok()) {
            known.hide(said);
        }
    })
}

/// What sandboxes of servers are made from.
struct Ground {
    policy: Policy,
    workspace: PathBuf,
    home: PathBuf,
}

impl Ground {
    fn launch(&self, server: &ServerSpec, stdio: &StdioServer) -> Result<Launched, ToolError> {
        let view = self.view(server, stdio)?;
        let limits =
            ProcessLimits { cpu_seconds: NO_SECONDS, disk_bytes: NO_BYTES, ..self.policy.process_limits() };
        let backend: Arc<dyn ShellBackend> = match self.policy.sandbox() {
            SandboxChoice::Auto => helve_sandbox::ladder(view, limits, Some(self.home.clone()))?,
            SandboxChoice::Native => helve_sandbox::native(view, limits, helve_sandbox::PoolSize::NONE)?,
            choice => helve_sandbox::backend(&choice, view, limits)?,
        };
        Ok(Launched { backend, working_dir: stdio.working_dir.clone() })
    }

    fn view(&self, server: &ServerSpec, stdio: &StdioServer) -> Result<View, ToolError> {
        let guarded = self.policy.guarded_files();
        let place = match stdio.workspace {
            WorkspaceUse::Hidden => self.scratch(&server.name)?,
            WorkspaceUse::Read | WorkspaceUse::Write => {
                check_workspace(&self.workspace, &self.home, &guarded)?
            }
        };
        let mut view = self.policy.view(&place, &self.home);
        // What commands may change besides the workspace, a server may look at.
        view.read_only.append(&mut view.read_write);
        view.read_only.extend(stdio.read.iter().filter(|path| path.exists()).cloned());
        if stdio.workspace == WorkspaceUse::Read {
            view.read_only.push(place);
        }
        for path in &stdio.write {
            check_writable(path, &self.home, &guarded)?;
            view.read_write.push(path.clone());
        }
        view.env = environment(&view.env, stdio);
        view.network = if stdio.network { Network::Host } else { Network::Off };
        // What is granted to commands is not granted to a server, and a server has no result that could tell of refusals.
        view.system_calls.clear();
        view.explain = Explain::Rare;
        Ok(view)
    }

    /// A directory of the server's own, in place of the workspace.
    fn scratch(&self, server: &str) -> Result<PathBuf, ToolError> {
        use std::os::unix::fs::DirBuilderExt;
        let place = self.home.join(SCRATCH).join(server);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&place);
        made.and_then(|()| place.canonicalize()).map_err(|error| {
            ToolError::internal(format!("The MCP server '{server}' gets no directory of its own: {error}"))
                .hint("Correct the permissions of $HELVE_HOME.")
        })
    }
}

fn environment(of_commands: &BTreeMap<String, String>, stdio: &StdioServer) -> BTreeMap<String, String> {
    let needed = |name: &str| NEEDED.contains(&name) || name.starts_with("LC_");
    let mut env: BTreeMap<String, String> = of_commands
        .iter()
        .filter(|(name, _)| needed(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    env.extend(stdio.env.clone());
    env
}

/// Why no runtime takes a tool, although its server has it and the owner agrees to it; nothing where one does.
pub fn kept_out(tool: &Definition) -> Option<String> {
    let faults = server_schema_faults(&tool.input, tool.output.as_ref());
    (!faults.is_empty()).then(|| faults.join("; "))
}

/// Puts one tool of a fleet into a runtime, for a single call: by the name under which a model sees it, starting its server
/// only if nothing of that is on record. Where it cannot be had, calling it says why.
pub async fn bring(fleet: &Fleet, runtime: &Runtime, shown: &str) {
    let missing = fleet.bring(shown).await.err();
    let mut tools = fleet.tools();
    if let Some(why) = missing.filter(|_| !tools.iter().any(|tool| tool.spec().name == shown)) {
        tools.extend(fleet.stand_in(shown, why));
    }
    runtime.set_tools(TOOLS, tools);
}

/// Puts the tools that are on record of a fleet into a runtime, for a look at them. No server is started.
pub async fn recall(fleet: &Fleet, runtime: &Runtime) {
    fleet.recall().await;
    runtime.set_tools(TOOLS, fleet.tools());
}

/// Keeps the tools of a runtime in step with a fleet, until it is dropped.
pub struct Gateway {
    fleet: Arc<Fleet>,
    shelf: Arc<Shelf>,
    following: tokio::task::AbortHandle,
}

impl Gateway {
    /// Puts what is known of the fleet's tools into the runtime now, and what comes to be known later. Schemas that cost more
    /// than `budget` bytes are found by `tool_search` instead of being shown. Has to be called where tasks can be spawned.
    pub fn new(fleet: &Arc<Fleet>, runtime: &Runtime, budget: usize) -> Gateway {
        let shelf = Shelf::new(budget);
        let mut version = fleet.version();
        version.mark_unchanged();
        put(fleet, runtime, &shelf);
        runtime.set_tools(ASKING, fleet.asking_tools());
        let kept_fleet = Arc::clone(fleet);
        let (fleet, runtime, kept) = (Arc::clone(fleet), runtime.clone(), Arc::clone(&shelf));
        let following = tokio::spawn(async move {
            while version.changed().await.is_ok() {
                put(&fleet, &runtime, &kept);
            }
        });
        Gateway { fleet: kept_fleet, shelf, following: following.abort_handle() }
    }

    /// The servers.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// Which of the tools a client is shown.
    pub fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.following.abort();
    }
}

fn put(fleet: &Fleet, runtime: &Runtime, shelf: &Arc<Shelf>) {
    let tools = fleet.tools();
    let specs: Vec<ToolSpec> = tools.iter().map(|tool| tool.spec().clone()).collect();
    // A tool that is not taken stands among the runtime's quarantined ones, with the reason.
    runtime.set_tools(TOOLS, tools);
    shelf.fill(specs.iter());
    let search: Vec<Box<dyn Tool>> = match shelf.is_over() {
        true => vec![Box::new(ToolSearch::new(Arc::clone(shelf)))],
        false => Vec::new(),
    };
    set_builtin_tools(runtime, SEARCH, search);
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_core::ErrorKind;
    use helve_core::servers::{ServerMay, Transport};
    use std::time::Duration;

    fn stdio(workspace: WorkspaceUse) -> StdioServer {
        StdioServer {
            command: "server".to_owned(),
            args: Vec::new(),
            env: BTreeMap::from([("GIVEN".to_owned(), "1".to_owned()), ("LANG".to_owned(), "C".to_owned())]),
            working_dir: None,
            workspace,
            read: Vec::new(),
            write: Vec::new(),
            network: false,
        }
    }

    fn server(stdio: &StdioServer) -> ServerSpec {
        ServerSpec {
            name: "s".to_owned(),
            transport: Transport::Stdio(stdio.clone()),
            start_timeout: Duration::from_secs(1),
            call_timeout: Duration::from_secs(1),
            trusted: false,
            parallel: false,
            allow: None,
            deny: Vec::new(),
            off: Default::default(),
            approval: None,
            tool_approval: BTreeMap::new(),
            rate_limit: None,
            may: ServerMay::default(),
            origin: "test".to_owned(),
        }
    }

    #[test]
    fn what_the_policy_knows_as_secret_is_hidden() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "geheim-4711\n").unwrap();
        let policy = Policy::from_toml(&format!("secrets = [{{ file = '{}' }}]", secret.display())).unwrap();
        let mut said = serde_json::json!({"of geheim-4711": ["a", "geheim-4711"]});
        hiding(&policy)(&mut said);
        assert_eq!(said, serde_json::json!({"of [REDACTED:secret]": ["a", "[REDACTED:secret]"]}));
    }

    #[test]
    fn of_a_commands_environment_a_server_gets_what_any_program_needs() {
        let names = ["PATH", "LANG", "LC_TIME", "MY_SETTING", "EDITOR"];
        let of_commands = names.map(|name| (name.to_owned(), "theirs".to_owned())).into();
        let env = environment(&of_commands, &stdio(WorkspaceUse::Hidden));
        let got: Vec<(&str, &str)> =
            env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(got, [("GIVEN", "1"), ("LANG", "C"), ("LC_TIME", "theirs"), ("PATH", "theirs")]);
    }

    #[test]
    fn what_commands_may_change_a_server_may_only_read() {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let path = root.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path.canonicalize().unwrap()
        };
        let (workspace, home, data, own) = (place("ws"), place("home"), place("data"), place("own"));
        let policy = Policy::from_toml(&format!(
            "view.read_write = [{data:?}]\n[tools.exec]\nsystem_calls = [\"ptrace\"]\nexplain = \"full\""
        ))
        .unwrap();
        let ground = Ground { policy, workspace: workspace.clone(), home: home.clone() };
        let reads = StdioServer { write: vec![own.clone()], ..stdio(WorkspaceUse::Read) };
        let view = ground.view(&server(&reads), &reads).unwrap();
        assert_eq!(view.read_write, std::slice::from_ref(&own));
        assert!(view.read_only.contains(&data) && view.read_only.contains(&workspace));
        assert_eq!(view.network, Network::Off);
        assert_eq!((view.system_calls.as_slice(), view.explain), (&[][..], Explain::Rare));
        let hidden = stdio(WorkspaceUse::Hidden);
        let view = ground.view(&server(&hidden), &hidden).unwrap();
        assert_eq!(view.workspace, home.join(SCRATCH).join("s"));
        for path in [home.clone(), home.join("sub"), root.path().to_owned()] {
            let writes = StdioServer { write: vec![path], ..stdio(WorkspaceUse::Read) };
            assert_eq!(ground.view(&server(&writes), &writes).unwrap_err().kind, ErrorKind::Blocked);
        }
    }
}
