//! `helve gc`: brings the state directory back into its budget.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args as ClapArgs;
use helve::store::{self, GcOptions, GcReport, Removed};

use crate::args::Global;
use crate::failure::Failure;
use crate::{moment, setup, ui};

/// Remove the oldest kept outputs until the rest fits the budget
#[derive(ClapArgs)]
#[command(long_about = "\
Remove the oldest kept outputs until the rest fits the budget (limits.blob_store_bytes), the oldest undo records until \
theirs fits (limits.undo_store_bytes), and temporary files that were left behind. Journals are never touched unless you name an age. Outputs of the last minute and sessions that are \
in use are always kept.")]
#[command(after_help = "\
Examples:
  helve gc --dry-run
  helve gc --sessions-older-than 90d
  helve gc --set limits.blob_store_bytes=0")]
pub(crate) struct Options {
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Also remove whole sessions in which nothing happened for this long, such as 90d
    #[arg(long, value_name = "AGE", value_parser = moment::parse_duration)]
    sessions_older_than: Option<Duration>,
}

pub(crate) fn gc(global: &Global, options: &Options) -> Result<u8, Failure> {
    let policy = setup::policy(global)?;
    let wanted = GcOptions {
        blob_budget_bytes: policy.limits().blob_store_bytes,
        undo_budget_bytes: policy.limits().undo_store_bytes,
        dry_run: options.dry_run,
        sessions_older_than: options.sessions_older_than,
    };
    let report = store::gc(&setup::home()?, &wanted)?;
    if global.json {
        ui::print_json(&report)?;
    } else {
        ui::print(&describe(&report, options.dry_run))?;
    }
    Ok(0)
}

fn describe(report: &GcReport, dry_run: bool) -> String {
    let mut text = String::new();
    let verb = if dry_run { "would remove" } else { "removed" };
    let mut list = |what: &str, removed: &[Removed]| {
        for one in removed {
            let _ = writeln!(text, "{verb} {what} {} ({} bytes)", one.name, one.bytes);
        }
    };
    list("temporary file", &report.temporaries);
    list("output", &report.blobs);
    list("the undo record of", &report.undo.calls);
    list("a file's former content", &report.undo.contents);
    list("session", &report.sessions);
    if report.approvals > 0 {
        let _ = writeln!(text, "{verb} {} approvals that ended long ago", report.approvals);
    }
    for note in &report.notes {
        let _ = writeln!(text, "{note}");
    }
    let freed = if dry_run { "would be freed" } else { "freed" };
    let _ = writeln!(
        text,
        "{} bytes {freed}; kept outputs take {} bytes, undo records {} bytes",
        report.freed_bytes, report.blob_bytes_left, report.undo.bytes_left
    );
    text
}
