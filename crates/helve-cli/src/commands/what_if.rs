//! `helve what-if`: what another policy would have said of the calls of a session. Nothing is called, asked or recorded.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use helve::{Caller, Policy, Sources, Verdict};
use helve_agent::record::{self, PastCall};
use helve_agent::what_if::{Report, Word, what_if as decide_again};

use super::demo::{self, Project};
use super::replay::records;
use crate::args::Global;
use crate::failure::{Failure, USAGE};
use crate::harmless::one_line;
use crate::{setup, ui, verdict};

/// Say which calls of a session another policy would have decided otherwise
#[derive(ClapArgs)]
#[command(long_about = "\
Say which calls of a session another policy would have decided otherwise.

The file stands in for the user's own configuration; the machine's file and --set hold as ever. Every call of the session is \
decided again as its journal has it, and only those are printed on which the word or its rule would be another. What a person \
answered does not count, only that the policy asked. What shows only when a command runs, such as that files.deny_read \
hides a file from it, is not decided. Nothing is called, asked or recorded. `helve policy diff` compares two \
configurations in their settings too.

Exit code: 0 nothing would change, 1 something would, or the journal is gone, 2 bad usage or configuration, or no such session.")]
#[command(after_help = "\
Examples:
  helve what-if 2026-01-31 --policy stricter.toml
  helve what-if 2026-01-31 --policy stricter.toml --json")]
pub(crate) struct Options {
    /// The session
    #[arg(value_name = "SESSION")]
    name: String,
    /// The configuration to decide under
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
}

pub(crate) fn what_if(global: &Global, options: &Options) -> Result<u8, Failure> {
    let sources =
        Sources { user: Some(options.policy.clone()), user_required: true, ..setup::sources(global) };
    let policy = Policy::load(&sources).map_err(|error| Failure::usage(error.to_string()))?;
    let records = records(setup::existing_home()?.as_ref(), &options.name, USAGE)?;
    let calls = record::calls(&records);
    // Paths are looked at where they are: the demo's project is gone, and made again for that.
    let project = demo::of(&records).map(|demo| Project::make(demo.seed, false)).transpose()?;
    let mut report = Report::default();
    for (place, calls) in by_workspace(&calls) {
        let (here, others): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|past| past.planned["lane"] != "mcp");
        let left =
            others.into_iter().map(|past| (past.call, "its tool is a server's, and none is started here"));
        report.left_out.extend(left);
        let dir = match (&project, place) {
            (Some(project), _) => Some(project.dir().to_owned()),
            (None, Some(place)) if Path::new(&place).is_dir() => Some(PathBuf::from(place)),
            (None, _) => global.workspace.clone(),
        };
        let inside = Global {
            workspace: dir,
            config: global.config.clone(),
            set: global.set.clone(),
            json: global.json,
            session: Some(options.name.clone()),
        };
        let workspace = setup::workspace(&inside)?.to_string_lossy().into_owned();
        let runtime = setup::builder_for(&inside, policy.clone(), options.name.clone(), Caller::Owner)?;
        let runtime = setup::build(runtime)?;
        let part = decide_again(&here, &workspace, |call, scope| runtime.decide_in(call, scope));
        report.decided += part.decided;
        report.changed.extend(part.changed);
        report.left_out.extend(part.left_out);
    }
    if global.json {
        ui::print_json(&report)?;
    } else {
        ui::print_styled(&told(&report))?;
    }
    Ok(u8::from(!report.changed.is_empty()))
}

/// The calls by the workspace that they worked in, in the order of the session.
fn by_workspace(calls: &[PastCall]) -> Vec<(Option<String>, Vec<PastCall>)> {
    let mut groups: Vec<(Option<String>, Vec<PastCall>)> = Vec::new();
    for past in calls {
        let place = past.workspace().map(str::to_owned);
        match groups.iter_mut().find(|(known, _)| *known == place) {
            Some((_, group)) => group.push(past.clone()),
            None => groups.push((place, vec![past.clone()])),
        }
    }
    groups
}

fn told(report: &Report) -> String {
    let mut text = String::new();
    for changed in &report.changed {
        let way = match changed.after.verdict.cmp(&changed.before.verdict) {
            std::cmp::Ordering::Less => ui::styled(ui::CAREFUL, " (laxer)"),
            std::cmp::Ordering::Equal => String::new(),
            std::cmp::Ordering::Greater => ui::styled(ui::GOOD, " (stricter)"),
        };
        let args = one_line(&changed.args.to_string(), 120);
        text.push_str(&format!("{}  {} {args}{way}\n", changed.call, one_line(&changed.tool, 60)));
        text.push_str(&format!("  {} {}\n", ui::styled(ui::BAD, "-"), said(&changed.before)));
        text.push_str(&format!("  {} {}\n", ui::styled(ui::GOOD, "+"), said(&changed.after)));
        if let Some(reason) =
            changed.after.reason.as_deref().filter(|_| changed.after.verdict > Verdict::Allow)
        {
            text.push_str(&format!("    {}\n", one_line(reason, 200)));
        }
    }
    for (call, why) in &report.left_out {
        text.push_str(&format!("{call}  not decided again: {why}\n"));
    }
    text.push_str(&format!(
        "{} of {} calls would be decided otherwise.\n",
        report.changed.len(),
        report.decided
    ));
    text
}

fn said(word: &Word) -> String {
    format!("{}  {}", verdict::column(word.verdict), one_line(&word.rule, 80))
}
