//! What a command does, in lists short enough for a person, a hook program and the journal. Made from an [`Analysis`];
//! each list is bounded, and `more` counts what was left out.

use helve_shell::analysis::{Analysis, Effect, EffectKind, Target};
use serde::{Deserialize, Serialize};

use super::short;

/// So many entries of each list are kept.
const MOST: usize = 24;
/// So much of each entry is kept.
const MAX_CHARS: usize = 200;

/// What a command does, as far as reading can tell. The members stand in the order of canonical JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EffectSummary {
    /// Paths that are deleted, those with all that is in them ending in `/**`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deletes: Vec<String>,
    /// Files that are executed by path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub executes: Vec<String>,
    /// Hosts that are connected to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// What touches the machine as a whole: disks, power, processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machine: Vec<String>,
    /// How many entries were left out of these lists.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: usize,
    /// The parts of which reading cannot tell what they do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opaque: Vec<OpaquePart>,
    /// What is left to run later by itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub persistence: Vec<String>,
    /// Programs that gain or give privileges.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub privilege: Vec<String>,
    /// The names of the programs that may run; `?` for one that shows only when it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// Paths that are read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// What usually holds credentials and is read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Paths that are created or changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
}

/// A part of which reading cannot tell what it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpaquePart {
    /// Why.
    pub reason: String,
    /// Which bytes of the command; none where a secret was taken out of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<(usize, usize)>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl EffectSummary {
    /// The summary of an analysis.
    pub fn of(analysis: &Analysis) -> Self {
        let mut summary = EffectSummary::default();
        let mut more = 0;
        for run in &analysis.runs {
            let name = run.program.clone().unwrap_or_else(|| "?".to_owned());
            push(&mut summary.programs, name, &mut more);
        }
        for effect in &analysis.effects {
            let list = match effect.kind {
                EffectKind::Read => &mut summary.reads,
                EffectKind::Write => &mut summary.writes,
                EffectKind::Delete | EffectKind::DeleteTree => &mut summary.deletes,
                EffectKind::Execute => &mut summary.executes,
                EffectKind::Connect => &mut summary.hosts,
                EffectKind::Privilege => &mut summary.privilege,
                EffectKind::Persist => &mut summary.persistence,
                EffectKind::Secret => &mut summary.secrets,
                EffectKind::Device
                | EffectKind::Power
                | EffectKind::Kill
                | EffectKind::ForkBomb
                | EffectKind::RunsDownload => &mut summary.machine,
            };
            push(list, describe(effect, analysis), &mut more);
        }
        for part in &analysis.opaque {
            let span = Some((part.span.start, part.span.end));
            let part = OpaquePart { reason: part.reason.to_string(), span };
            if summary.opaque.len() < MOST {
                summary.opaque.push(part);
            } else {
                more += 1;
            }
        }
        summary.more = more;
        summary
    }

    /// The same with each text passed through `clean`, and without places in a command that is shown in `other` words.
    pub(crate) fn cleaned(mut self, clean: impl Fn(&str) -> String, other: bool) -> Self {
        if other {
            self.opaque.iter_mut().for_each(|part| part.span = None);
        }
        let lists = [
            &mut self.programs,
            &mut self.reads,
            &mut self.writes,
            &mut self.deletes,
            &mut self.executes,
            &mut self.hosts,
            &mut self.privilege,
            &mut self.persistence,
            &mut self.secrets,
            &mut self.machine,
        ];
        for text in lists.into_iter().flatten() {
            *text = short(&clean(text), MAX_CHARS);
        }
        self
    }
}

/// Adds an entry once.
fn push(list: &mut Vec<String>, entry: String, more: &mut usize) {
    if list.contains(&entry) {
        return;
    }
    if list.len() < MOST {
        list.push(entry);
    } else {
        *more += 1;
    }
}

fn describe(effect: &Effect, analysis: &Analysis) -> String {
    let program = || {
        let run = effect.run.and_then(|run| analysis.runs.get(run));
        run.and_then(|run| run.program.clone()).unwrap_or_else(|| "?".to_owned())
    };
    let target = match &effect.target {
        Target::Path { path, .. } => path.display().to_string(),
        Target::Glob { under, pattern, .. } => format!("{} ({pattern})", under.display()),
        Target::Host(host) => host.clone(),
        Target::Unknown => "?".to_owned(),
        Target::Machine => program(),
    };
    match effect.kind {
        EffectKind::DeleteTree => format!("{}/**", target.trim_end_matches('/')),
        EffectKind::Privilege => program(),
        EffectKind::Device => format!("writes to the device {target}"),
        EffectKind::Power => "stops or restarts the machine".to_owned(),
        EffectKind::Kill => format!("ends processes ({})", program()),
        EffectKind::ForkBomb => "starts processes without end".to_owned(),
        EffectKind::RunsDownload => "runs what it got from a network".to_owned(),
        _ => target,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_shell::analysis::Setting;
    use helve_shell::tree::Dialect;
    use std::path::Path;

    #[test]
    fn what_is_deleted_with_all_that_is_in_it_ends_in_two_stars() {
        let (directory, workspace) = (Path::new("/ws"), Path::new("/ws"));
        let setting = Setting { dialect: Dialect::Bash, directory, workspace, home: None };
        for (command, shown) in [("rm -rf /", "/**"), ("rm -rf /a", "/a/**"), ("rm -rf $x", "?/**")] {
            let analysis = helve_shell::analyze(command, &setting);
            assert_eq!(EffectSummary::of(&analysis).deletes, [shown], "{command}");
        }
    }
}
