//! Names that are written as patterns: `/bin/r? -rf x`.
//!
//! Which file a pattern matches shows only when the command runs. So the few programs that the families are about are put
//! in the place of the pattern, as far as they match it, and the command is read again.

use helve_shell::analysis::{ArgPart, Run};

use super::families::{self, Hit};
use super::{Case, Guard, disk};

/// Programs that destroy, or that start what does.
const NAMES: &[&str] = &[
    "bash",
    "busybox",
    "dash",
    "dd",
    "env",
    "halt",
    "mkfs",
    "mkfs.ext4",
    "poweroff",
    "reboot",
    "rm",
    "sh",
    "shutdown",
    "sudo",
];

/// The most patterns that are tried, and the longest text that is read again.
const MAX_TRIED: usize = 4;
const MAX_LENGTH: usize = 4096;

/// The rules that the command falls under if a pattern turns out to be one of the names.
pub(super) fn look(guard: &Guard, case: &Case<'_>) -> Vec<Hit> {
    let mut hits = Vec::new();
    if case.text.len() > MAX_LENGTH {
        return hits;
    }
    let runs = case.analysis.runs.iter().enumerate().filter(|(_, run)| run.program.is_none());
    for (index, run, pattern) in
        runs.filter_map(|(index, run)| Some((index, run, pattern(run)?))).take(MAX_TRIED)
    {
        let (directory, last) =
            pattern.rsplit_once('/').map_or(("", pattern.as_str()), |(directory, last)| {
                // A relative path stays one: it names a file of the project.
                (if directory.starts_with('/') || directory.is_empty() { "" } else { "./" }, last)
            });
        for name in NAMES.iter().filter(|name| disk::matches(last, name)) {
            let rules = read_again(guard, case, run, &format!("{directory}{name}"));
            hits.extend(rules.into_iter().map(|rule| Hit {
                rule,
                span: run.span,
                run: Some(index),
                liftable: false,
            }));
        }
    }
    hits
}

/// A name that is a pattern.
fn pattern(run: &Run) -> Option<String> {
    let mut text = String::new();
    let mut active = false;
    for part in &run.argv.first()?.parts {
        match part {
            // What is quoted matches itself; none of the names has such a character.
            ArgPart::Known(known) => {
                text.extend(known.chars().map(|ch| if "*?[".contains(ch) { '\u{0}' } else { ch }))
            }
            ArgPart::Glob(glob) => {
                active = true;
                text.push_str(glob);
            }
            ArgPart::Unknown => return None,
        }
    }
    active.then_some(text)
}

/// The rules that the command falls under with another name in the place of the pattern.
fn read_again(guard: &Guard, case: &Case<'_>, run: &Run, name: &str) -> Vec<&'static str> {
    let Some(span) = run.argv.first().map(|arg| arg.span) else { return Vec::new() };
    let (Some(before), Some(behind)) = (case.text.get(..span.start), case.text.get(span.end..)) else {
        return Vec::new();
    };
    let text = format!("{before}{name}{behind}");
    let analysis = helve_shell::analyze(&text, &case.setting);
    let again = Case { text: &text, analysis: &analysis, ..*case };
    families::look(guard, &again).into_iter().map(|hit| hit.rule).collect()
}
