//! Taint: words that the owner does not vouch for led to the call, and what it would carry out could be what they ask for.
//!
//! A text from a server, a page or a file that lies elsewhere may tell a model to send a secret away. Nobody can see in a text
//! whether it does; what can be seen is that such a text is in the talk and that the call leaves the machine. The two together
//! are asked about, each time, whatever was granted before. An owner who writes `approval = "never"`, for the tool or for the
//! MCP server that has it, has answered.
//!
//! | what a call brings | is called |
//! |---|---|
//! | an answer of an MCP server | `mcp:SERVER` |
//! | something from a host | `web:HOST`, or `web` |
//! | a file outside the workspace, the system's own left aside | `file:PATH` |

use std::path::{Component, Path, PathBuf};

use helve_core::{Access, ApprovalNeed, Decision, Lane, Resource, ToolSpec};
use helve_policy::ToolRule;
use helve_shell::analysis::{EffectKind, Target};

use super::judge::{Asking, Judged, extend};
use super::{Authority, Decided, Permit};
use crate::off_async;
use crate::pipeline::govern::Governor;
use crate::side::Side;

/// The rule that asks.
const TAINT: &str = "taint";
/// What a command reads there is the machine's own, and part of nearly every command.
const SYSTEM: &[&str] = &[
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys", "/usr",
];

/// Who else may have written what a call brings.
pub(crate) struct Sources {
    brings: Option<String>,
    /// Files outside the workspace may be behind these paths.
    reads: Vec<PathBuf>,
}

impl Authority {
    /// Makes a question of a call that could carry something out, where the talk is tainted.
    pub(super) fn ask_where_tainted(
        &self,
        side: &Side,
        spec: &ToolSpec,
        rule: &ToolRule,
        access: &Access,
        contained: bool,
        decided: &mut Decided,
    ) {
        let Some(source) = &side.tainted else { return };
        if self.is_vouched_for(spec, rule) || !self.carries_out(spec, access, contained) {
            return;
        }
        let reason = format!(
            "text from {source}, which nobody vouches for, is in the talk, and '{}' could carry something out",
            spec.name
        );
        let asks = Decision::ask(TAINT, reason).grant(format!("tools.{}.approval = \"never\"", spec.name));
        extend(&mut decided.asking, vec![Asking::whole(&asks)]);
        decided.decision = decided.decision.clone().stricter(asks);
    }

    /// Whether the owner wrote that nobody is asked about the tool. What is said of the tool itself goes before what is said
    /// of its server; that a tool declares so does not count.
    fn is_vouched_for(&self, spec: &ToolSpec, rule: &ToolRule) -> bool {
        let of_server = || {
            let origin = spec.origin.as_ref()?;
            self.policy.server_approval(&origin.server, &origin.tool)
        };
        rule.approval.or_else(of_server) == Some(ApprovalNeed::Never)
    }

    /// Whether a call reaches beyond this machine.
    fn carries_out(&self, spec: &ToolSpec, access: &Access, contained: bool) -> bool {
        match spec.lane {
            Lane::Mcp | Lane::Wasm => true,
            Lane::Sandbox => self.commands_reach_out(contained),
            Lane::Host | Lane::Files => spec.open_world == Some(true) || host(access).is_some(),
        }
    }

    /// A command that no sandbox contains reaches what the account reaches.
    fn commands_reach_out(&self, contained: bool) -> bool {
        !contained || self.policy.commands_reach_network()
    }

    /// Who else writes what the call brings, as far as that shows before it runs.
    pub(super) fn brings(
        &self,
        spec: &ToolSpec,
        access: &Access,
        judged: &[Judged],
        contained: bool,
    ) -> Option<String> {
        if let Some(origin) = &spec.origin {
            return Some(["mcp:", &origin.server].concat());
        }
        if spec.open_world == Some(true) || host(access).is_some() {
            return Some(web(host(access)));
        }
        let elsewhere = |path: &Path| {
            // A sandbox gives each command an empty one of its own.
            let own = contained && path.starts_with("/tmp") && !self.policy.opens(path);
            elsewhere(path).filter(|_| !own)
        };
        let effects = judged.iter().flat_map(|one| &one.analysis.effects);
        let reach_out = self.commands_reach_out(contained);
        effects.into_iter().find_map(|effect| match (effect.kind, &effect.target) {
            (EffectKind::Connect, Target::Host(host)) if reach_out => Some(web(Some(without_port(host)))),
            (EffectKind::Connect, _) if reach_out => Some(web(None)),
            (EffectKind::Read, Target::Path { path, inside: false, .. }) => elsewhere(path),
            (EffectKind::Read, Target::Glob { under, inside: false, .. }) => elsewhere(under),
            _ => None,
        })
    }

    /// Who else may have written what the call brings, as far as that is known before its tool runs. Taken from the permit, once.
    pub(crate) fn take_sources(&self, permit: &mut Permit) -> Sources {
        Sources { brings: permit.brings.take(), reads: self.may_read_elsewhere(permit) }
    }

    /// The paths that a file tool reads, where there are files outside the workspace that it could.
    fn may_read_elsewhere(&self, permit: &Permit) -> Vec<PathBuf> {
        if permit.entry.spec().lane != Lane::Files || !self.policy.files_reach_out() {
            return Vec::new();
        }
        let reads = permit.access.reads.iter().filter_map(|resource| match resource {
            Resource::Path(path) => Some(PathBuf::from(path)),
            Resource::Host(_) | Resource::Key(_) => None,
        });
        reads.collect()
    }

    /// Who else wrote it, when the tool has run: where the paths lead to that it read. They are looked up by name, because that
    /// labels what was read and guards nothing.
    pub(crate) fn brought(&self, sources: Sources, governor: &Governor) -> Option<String> {
        let Sources { brings, reads } = sources;
        if brings.is_some() || reads.is_empty() {
            return brings;
        }
        let outside = |path: &PathBuf| {
            let path = self.workspace.join(path);
            let real = path.canonicalize().unwrap_or(path);
            let plain: PathBuf = real.components().filter(|part| *part != Component::CurDir).collect();
            (!plain.starts_with(&self.workspace)).then(|| format!("file:{}", plain.display()))
        };
        off_async(|| reads.iter().find_map(outside)).map(|from| governor.clean(&from))
    }
}

/// The first host that a call names.
fn host(access: &Access) -> Option<&str> {
    access.reads.iter().chain(&access.writes).find_map(|resource| match resource {
        Resource::Host(host) => Some(host.as_str()),
        Resource::Path(_) | Resource::Key(_) => None,
    })
}

fn web(host: Option<&str>) -> String {
    host.map_or_else(|| "web".to_owned(), |host| format!("web:{host}"))
}

/// Whose words come is the same at every port.
fn without_port(host: &str) -> &str {
    let is_port = |(name, port): &(&str, &str)| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']'))
    };
    host.rsplit_once(':').filter(is_port).map_or(host, |(name, _)| name)
}

/// A file that a command reads outside the workspace, if it is not the system's own.
fn elsewhere(path: &Path) -> Option<String> {
    let of_system = path == Path::new("/") || SYSTEM.iter().any(|system| path.starts_with(system));
    (!of_system).then(|| format!("file:{}", path.display()))
}
