//! The names of effects that rules speak of: a closed set, each with what it covers.

use helve_shell::analysis::{Effect, EffectKind, Target};

/// A name of effects in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EffectName {
    ReadsOutside,
    WritesOutside,
    Writes,
    Deletes,
    DeletesTree,
    Network,
    Privilege,
    Persistence,
    Secrets,
    Device,
    Power,
    Kill,
    ForkBomb,
    RunsDownload,
    Opaque,
    ExecutesWorkspaceFile,
}

/// The names of effects that a rule may speak of, each with what it covers.
pub fn effect_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    EffectName::ALL.iter().map(|(name, _, covers)| (*name, *covers))
}

impl EffectName {
    /// Every name, with what it covers in a few words.
    pub(crate) const ALL: [(&'static str, EffectName, &'static str); 16] = [
        ("reads-outside", EffectName::ReadsOutside, "reads a path outside the workspace"),
        ("writes-outside", EffectName::WritesOutside, "writes or deletes a path outside the workspace"),
        ("writes", EffectName::Writes, "writes a file"),
        ("deletes", EffectName::Deletes, "deletes"),
        ("deletes-tree", EffectName::DeletesTree, "deletes a directory with all that is in it"),
        ("network", EffectName::Network, "opens a network connection"),
        ("privilege", EffectName::Privilege, "gains or gives privileges"),
        ("persistence", EffectName::Persistence, "leaves something that runs later by itself"),
        ("secrets", EffectName::Secrets, "reads what usually holds credentials"),
        ("device", EffectName::Device, "formats a disk or writes to a raw device"),
        ("power", EffectName::Power, "stops or restarts the machine"),
        ("kill", EffectName::Kill, "ends processes"),
        ("fork-bomb", EffectName::ForkBomb, "starts processes without end"),
        ("runs-download", EffectName::RunsDownload, "runs what it got from a network"),
        ("opaque", EffectName::Opaque, "hides what it does"),
        ("executes-workspace-file", EffectName::ExecutesWorkspaceFile, "runs a file of the workspace"),
    ];

    /// The effect of that name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, ..)| *known == name).map(|(_, effect, _)| *effect)
    }

    /// What it covers, for a sentence that starts with the command.
    pub(crate) fn covers(self) -> &'static str {
        Self::ALL.iter().find(|(_, effect, _)| *effect == self).map_or("", |(.., covers)| *covers)
    }

    /// Whether the effect is of that name. A target that is not known lies neither inside nor outside.
    pub(crate) fn names(self, effect: &Effect) -> bool {
        use EffectKind as Kind;
        let inside = match &effect.target {
            Target::Path { inside, .. } | Target::Glob { inside, .. } => Some(*inside),
            Target::Unknown | Target::Host(_) | Target::Machine => None,
        };
        match self {
            EffectName::ReadsOutside => effect.kind == Kind::Read && inside == Some(false),
            EffectName::WritesOutside => {
                matches!(effect.kind, Kind::Write | Kind::Delete | Kind::DeleteTree) && inside == Some(false)
            }
            EffectName::Writes => effect.kind == Kind::Write,
            EffectName::Deletes => matches!(effect.kind, Kind::Delete | Kind::DeleteTree),
            EffectName::DeletesTree => effect.kind == Kind::DeleteTree,
            EffectName::Network => effect.kind == Kind::Connect,
            EffectName::Privilege => effect.kind == Kind::Privilege,
            EffectName::Persistence => effect.kind == Kind::Persist,
            EffectName::Secrets => effect.kind == Kind::Secret,
            EffectName::Device => effect.kind == Kind::Device,
            EffectName::Power => effect.kind == Kind::Power,
            EffectName::Kill => effect.kind == Kind::Kill,
            EffectName::ForkBomb => effect.kind == Kind::ForkBomb,
            EffectName::RunsDownload => effect.kind == Kind::RunsDownload,
            EffectName::ExecutesWorkspaceFile => effect.kind == Kind::Execute && inside != Some(false),
            EffectName::Opaque => false,
        }
    }
}
