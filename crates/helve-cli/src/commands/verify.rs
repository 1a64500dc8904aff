//! `helve verify`: is the journal still what was written?

use std::fmt::Write as _;

use clap::Args as ClapArgs;
use helve::store::{self, HeadCheck, StoreError, VerifyReport};
use serde_json::json;

use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::harmless;
use crate::{setup, ui};

/// Check that journals are what was written
#[derive(ClapArgs)]
#[command(long_about = "\
Check that journals are what was written: every changed, removed, reordered, inserted, cut or restored entry is named.

Without a name, the session that --session or the configuration names is checked, else every session. A journal that \
was rewritten from its start together with everything beside it can only be seen by comparing with a head hash that you \
noted elsewhere: pass it as --head. Exit code: 0 sound, 1 problems, 2 bad usage or no such session.")]
#[command(after_help = "\
Examples:
  helve verify
  helve verify 2026-01-31 --head \"$(cat noted-head)\"
  helve verify --all --json")]
pub(crate) struct Options {
    /// The session
    #[arg(value_name = "SESSION", conflicts_with = "all")]
    name: Option<String>,
    /// Every session
    #[arg(long)]
    all: bool,
    /// A head hash that an earlier check printed: it must be one of this journal's
    #[arg(long, value_name = "HASH", conflicts_with = "all")]
    head: Option<String>,
}

pub(crate) fn verify(global: &Global, options: &Options) -> Result<u8, Failure> {
    let home = setup::home()?;
    let named = match &options.name {
        Some(name) => Some(name.clone()),
        None if options.all => None,
        None => setup::named_session(global, &setup::policy(global)?),
    };
    let is_named = named.is_some();
    let sessions = named.map_or_else(|| home.sessions_ever_seen(), |name| Ok(vec![name]))?;
    if options.head.is_some() && sessions.len() != 1 {
        return Err(Failure::usage(format!(
            "--head belongs to one session, and there are {}. Name it: helve verify SESSION --head HASH",
            sessions.len()
        )));
    }
    if sessions.is_empty() {
        ui::note("there are no sessions yet");
    }
    let mut sound = true;
    for session in &sessions {
        let report = match store::verify(&home, session, options.head.as_deref()) {
            Ok(report) => report,
            Err(error) if is_named || options.head.is_some() => return Err(error.into()),
            Err(error) => {
                sound &= tell_unchecked(global, session, error)?;
                continue;
            }
        };
        sound &= report.is_ok();
        if global.json {
            let mut line = json!({"ok": report.is_ok()});
            let body = serde_json::to_value(&report).map_err(|error| Failure::internal(error.to_string()))?;
            if let (Some(line), serde_json::Value::Object(body)) = (line.as_object_mut(), body) {
                line.extend(body);
            }
            ui::print_json(&line)?;
        } else {
            ui::print_styled(&describe(&report))?;
        }
    }
    Ok(u8::from(!sound))
}

/// Says why one of many sessions could not be checked; whether that is no problem.
fn tell_unchecked(global: &Global, session: &str, error: StoreError) -> Result<bool, Failure> {
    if matches!(error, StoreError::NoSuchSession(_)) {
        // Nobody has seen an entry in it: it is being made or removed, or who did was killed.
        ui::note(&format!("{session}: there is no journal"));
        return Ok(true);
    }
    if global.json {
        let problem = json!({"line": null, "seq": null, "kind": "unreadable", "message": error.to_string()});
        ui::print_json(&json!({"ok": false, "session": session, "problems": [problem]}))?;
    } else {
        let verdict = ui::styled(ui::BAD, "NOT CHECKED");
        ui::print_styled(&format!("{session}: {verdict}, {}\n", harmless(&error.to_string())))?;
    }
    Ok(false)
}

fn describe(report: &VerifyReport) -> String {
    let mut text = String::new();
    let verdict =
        if report.is_ok() { ui::styled(ui::GOOD, "sound") } else { ui::styled(ui::BAD, "NOT SOUND") };
    let _ = writeln!(text, "{}: {verdict}, {} entries, head {}", report.session, report.entries, report.head);
    match report.expected {
        HeadCheck::Equal => text.push_str("  the expected head is the newest entry\n"),
        HeadCheck::GrownSince(seq) => {
            let _ = writeln!(text, "  the expected head is entry {seq}; the journal has grown since");
        }
        // An absent head is among the problems.
        HeadCheck::NotAsked | HeadCheck::Absent => {}
    }
    for problem in &report.problems {
        let line = problem.line.map(|line| format!("line {line}, ")).unwrap_or_default();
        let seq = problem.seq.map(|seq| format!("entry {seq}, ")).unwrap_or_default();
        let kind = serde_json::to_value(problem.kind).unwrap_or_default();
        let kind = kind.as_str().unwrap_or("problem");
        let _ = writeln!(text, "  {}: {line}{seq}{}", ui::styled(ui::BAD, kind), harmless(&problem.message));
    }
    for note in &report.notes {
        let _ = writeln!(text, "  note: {}", harmless(note));
    }
    text
}
