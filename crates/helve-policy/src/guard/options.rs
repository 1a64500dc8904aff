//! Whether a pattern can turn out to be an option.
//!
//! `sort *.txt` runs another program if a file is called `--compress-program=x`. Where the directory holds no name that
//! starts with a dash, and the command makes none, the doubt is lifted.

use std::collections::HashMap;
use std::path::PathBuf;

use helve_shell::analysis::{Analysis, ArgPart, DepartureKind, EffectKind, Run};

use super::disk;

/// Takes out the departures of which the disk shows that they cannot happen.
pub(crate) fn settle(analysis: &mut Analysis) {
    let doubtful =
        |run: &Run| run.departures.iter().any(|departure| departure.kind == DepartureKind::PossibleOption);
    if !analysis.runs.iter().any(doubtful) {
        return;
    }
    // A file that the command makes itself is not there yet.
    let makes = |kind: EffectKind| matches!(kind, EffectKind::Write | EffectKind::RunsDownload);
    if analysis.effects.iter().any(|effect| makes(effect.kind))
        || !analysis.runs.iter().all(|run| run.understood)
    {
        return;
    }
    let mut looked: HashMap<PathBuf, bool> = HashMap::new();
    for run in analysis.runs.iter_mut().filter(|run| doubtful(run)) {
        let Some(directory) = run.directory.clone() else { continue };
        let globs: Vec<_> = run
            .argv
            .iter()
            .filter(|arg| starts_with_pattern(arg.parts.first()))
            .map(|arg| arg.span)
            .collect();
        let is_glob = |departure: &helve_shell::analysis::Departure| {
            departure.kind == DepartureKind::PossibleOption && globs.contains(&departure.span)
        };
        if !run.departures.iter().any(is_glob) {
            continue;
        }
        let may = *looked.entry(directory).or_insert_with_key(|directory| disk::may_hold_option(directory));
        if !may {
            run.departures.retain(|departure| !is_glob(departure));
        }
    }
}

fn starts_with_pattern(first: Option<&ArgPart>) -> bool {
    matches!(first, Some(ArgPart::Glob(_)))
}
