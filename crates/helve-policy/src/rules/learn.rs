//! Rules proposed from what was run: `helve policy learn`.
//!
//! In come commands with how often they were seen, out come allow rules, the most used first, each with the commands that
//! it was made from as its examples. An argument becomes a slot only where at least three different values were seen.
//! Nothing is written anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use helve_shell::analysis::{Analysis, DepartureKind, Run, Setting};
use helve_shell::tree::Dialect;

use super::offer::{fixed_words, never_offered, only_reads, word};
use super::pattern::CommandPattern;
use super::steering;

/// How many different values make a slot.
const VALUES_OF_A_SLOT: usize = 3;

/// The most values that are written out as alternatives, examples of one rule, and commands that are looked at.
const MAX_ALTERNATIVES: usize = 8;
const MAX_EXAMPLES: usize = 5;
const MAX_OBSERVED: usize = 10_000;

/// A command that was run, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The text of the command.
    pub command: String,
    /// How often it was seen.
    pub count: u64,
}

/// A rule that would have allowed what was run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ProposedRule {
    /// The command pattern.
    pub command: String,
    /// How many runs it would have allowed.
    pub seen: u64,
    /// Some of them.
    pub allows: Vec<String>,
}

impl ProposedRule {
    /// The rule as a table of `helve.toml`.
    pub fn toml(&self) -> String {
        let text = |text: &str| serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f");
        let examples: Vec<String> = self.allows.iter().map(|example| text(example)).collect();
        format!(
            "# seen {} times\n[[rules]]\nverdict = \"allow\"\ncommand = {}\nallows = [{}]\n",
            self.seen,
            text(&self.command),
            examples.join(", ")
        )
    }
}

/// The words of one run, with how often it was seen.
type Seen = BTreeMap<Vec<String>, u64>;

/// Proposes rules for what was run in `workspace`; commands of which a part is opaque or would give away everything
/// propose nothing for that part.
pub fn learn(observations: &[Observation], workspace: &Path, home: Option<&Path>) -> Vec<ProposedRule> {
    let mut groups: BTreeMap<(Vec<String>, usize), Seen> = BTreeMap::new();
    let setting = Setting { dialect: Dialect::Bash, directory: workspace, workspace, home };
    for observation in observations.iter().take(MAX_OBSERVED) {
        let analysis = helve_shell::analyze(&observation.command, &setting);
        for (index, run) in analysis.runs.iter().enumerate() {
            let Some(words) = plain_words(&analysis, index, run, workspace) else { continue };
            let borrowed: Vec<&str> = words.iter().map(String::as_str).collect();
            // Only what reads may be put together; anything else is proposed word for word.
            let reads = run.departures.is_empty() && only_reads(&analysis, index);
            let fixed = if reads { fixed_words(&borrowed) } else { words.len() };
            let fixed = words.iter().take(fixed).cloned().collect();
            *groups.entry((fixed, words.len())).or_default().entry(words).or_default() += observation.count;
        }
    }
    let mut proposed: Vec<ProposedRule> =
        groups.into_values().flat_map(|seen| propose_group(&seen)).collect();
    proposed.sort_by(|a, b| b.seen.cmp(&a.seen).then_with(|| a.command.cmp(&b.command)));
    proposed
}

/// The words of a run that an exact pattern vouches for.
fn plain_words(analysis: &Analysis, index: usize, run: &Run, workspace: &Path) -> Option<Vec<String>> {
    let words: Vec<String> =
        run.argv.iter().map(|arg| arg.text().map(str::to_owned)).collect::<Option<_>>()?;
    let ordinary = |kind| matches!(kind, DepartureKind::Change | DepartureKind::Network);
    // What another program starts needs that program's rule first, and that is never proposed.
    if never_offered(&words)
        || !run.via.is_empty()
        || steering::needs_no_rule(run, false)
        || !run.departures.iter().all(|departure| ordinary(departure.kind))
    {
        return None;
    }
    let exact = CommandPattern::parse(&quoted(&words)).ok()?;
    exact.covers(analysis, index, workspace).ok().map(|()| words)
}

fn quoted(words: &[String]) -> String {
    words.iter().map(|text| word(text)).collect::<Vec<_>>().join(" ")
}

/// Rules for runs of the same program, subcommand and length: one for all where their words have a common form, else
/// one for each.
fn propose_group(seen: &Seen) -> Vec<ProposedRule> {
    let rule = |command: String, part: &mut dyn Iterator<Item = (&Vec<String>, &u64)>| {
        let mut rule = ProposedRule { command, seen: 0, allows: Vec::new() };
        for (words, count) in part {
            rule.seen = rule.seen.saturating_add(*count);
            if rule.allows.len() < MAX_EXAMPLES {
                rule.allows.push(quoted(words));
            }
        }
        rule
    };
    match common(seen) {
        Some(pattern) => vec![rule(pattern, &mut seen.iter())],
        None => seen.iter().map(|one| rule(quoted(one.0), &mut std::iter::once(one))).collect(),
    }
}

/// One pattern for all argvs of a group.
fn common(seen: &Seen) -> Option<String> {
    let length = seen.keys().next()?.len();
    let mut words = Vec::new();
    let mut open = 0;
    for at in 0..length {
        let values: BTreeSet<&str> =
            seen.keys().filter_map(|argv| argv.get(at)).map(String::as_str).collect();
        let word = word_for(&values)?;
        open += usize::from(values.len() > 1);
        words.push(word);
    }
    // Values of different places that were never seen together are not vouched for.
    (open <= 1).then(|| words.join(" "))
}

/// A word of a pattern for the values seen at one place.
fn word_for(values: &BTreeSet<&str>) -> Option<String> {
    let all = |fits: fn(&str) -> bool| values.iter().all(|value| fits(value));
    match values.len() {
        1 => values.iter().next().map(|value| word(value)),
        n if n < VALUES_OF_A_SLOT || values.iter().any(|value| value.starts_with('-')) => {
            let quoted: Vec<String> = values.iter().map(|value| alternative(value)).collect();
            (n <= MAX_ALTERNATIVES).then(|| format!("{{{}}}", quoted.join(",")))
        }
        _ if all(|value| value.bytes().all(|b| b.is_ascii_digit())) => Some("<number>".to_owned()),
        _ if all(is_path) => Some("<path>".to_owned()),
        _ if all(is_name) => Some("<name>".to_owned()),
        _ => None,
    }
}

/// A word between braces, where a comma needs quotes too.
fn alternative(text: &str) -> String {
    if text.contains(',') { format!("'{}'", helve_shell::quote_single_inner(text)) } else { word(text) }
}

/// Whether a word is a path inside the workspace by its text, and not only a name.
fn is_path(text: &str) -> bool {
    let climbs = text.split('/').any(|part| part == "..");
    !text.starts_with(['/', '~', '-']) && !climbs && !text.contains("://") && text.contains(['/', '.'])
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

#[cfg(test)]
mod tests;
