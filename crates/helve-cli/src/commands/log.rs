//! `helve log`: what was called, and what came of it. Asks the index; the journals stay the truth.
//!
//! | module | prints |
//! |---|---|
//! | `table` | one line a call |
//! | `follow` | the same, while calls happen |
//! | `story` | everything about one call, and its kept output |
//!
//! `sound` says whether the journals behind it are what was written.

mod follow;
mod sound;
pub(crate) mod story;
mod table;

use clap::Args as ClapArgs;
use helve::ErrorKind;
use helve::store::{CallRow, Filter, Home, Index};

use self::sound::Journals;
use crate::args::Global;
use crate::failure::{Failure, whoever_reads};
use crate::harmless::harmless;
use crate::{moment, setup, ui};

/// List recorded calls, or show one
#[derive(ClapArgs)]
#[command(long_about = "\
List recorded calls, the newest last, or show one with its arguments, its decision and its result.

Times are UTC. The state is `ok`, the kind of the error, `running`, or `cut` for a call whose process ended before it could \
record an outcome. UNDO says `yes` where `helve undo CALL` can put back what the call changed, `wait` where what it would change waits for `helve commit CALL` or `helve discard CALL`. A call can be named by the beginning of its id. --session restricts the list to one session.

The journals of the calls that are printed are checked, up to 256 MiB of them: what was changed in one is said on standard \
error, and `verified` with --json (null: not checked). With --follow they are checked again for what comes, up to 16 MiB a \
second. `helve verify` checks all of it. Exit code: 0, 1 if a journal is not what was written.")]
#[command(after_help = "\
Examples:
  helve log --failed --since 2h
  helve log --follow --tool exec
  helve log c_01JD2M6WZ0
  helve log --output c_01JD2M6WZ0 > whole-output.txt")]
pub(crate) struct Options {
    /// Show this call
    #[arg(value_name = "CALL", conflicts_with_all = ["follow", "output"])]
    story: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls that failed
    #[arg(long)]
    failed: bool,
    /// Only calls with this kind of error, such as timeout
    #[arg(long, value_name = "KIND", value_parser = error_kind)]
    kind: Option<ErrorKind>,
    /// Only calls whose id begins so
    #[arg(long, value_name = "ID")]
    call: Option<String>,
    /// Only calls from then on: 2h, 3d (ago), 2026-01-31, "2026-01-31 13:00"
    #[arg(long, value_name = "WHEN", value_parser = moment::parse_since)]
    since: Option<u64>,
    /// At most this many, the newest
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u64,
    /// Go on printing calls as they end
    #[arg(long)]
    follow: bool,
    /// Print the whole output of a call, unchanged; on a terminal, control characters are shown instead of obeyed
    #[arg(long, value_name = "CALL", conflicts_with = "follow")]
    output: Option<String>,
}

impl Options {
    /// Whether `--json` means lines of JSON. The output of a call is given as it is.
    pub(crate) fn answers_in_lines(&self) -> bool {
        self.output.is_none()
    }
}

fn error_kind(name: &str) -> Result<ErrorKind, String> {
    ErrorKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
        let names: Vec<&str> = ErrorKind::ALL.iter().map(|kind| kind.name()).collect();
        format!("there is no such kind; there are {}", names.join(", "))
    })
}

pub(crate) fn log(global: &Global, options: &Options) -> Result<u8, Failure> {
    let home = setup::home()?;
    let mut index = Index::open(&home)?;
    for error in index.sync()? {
        ui::note(&format!("a session is passed over: {}", harmless(&error.to_string())));
    }
    let mut journals = Journals::new(&home);
    let shown = if let Some(call) = &options.story {
        story::show(&home, &mut index, call, &mut journals, global.json)
    } else if let Some(call) = &options.output {
        story::output(&home, &mut index, call, &mut journals)
    } else {
        list(&home, &mut index, &mut journals, global, options)
    };
    whoever_reads(shown)?;
    Ok(journals.code())
}

fn list(
    home: &Home,
    index: &mut Index,
    journals: &mut Journals,
    global: &Global,
    options: &Options,
) -> Result<(), Failure> {
    let filter = Filter {
        session: global.session.clone(),
        tool: options.tool.clone(),
        ok: options.failed.then_some(false),
        kind: options.kind.map(|kind| kind.name().to_owned()),
        call: options.call.clone(),
        since_us: options.since,
        limit: Some(options.limit),
        newest_first: true,
        ..Filter::default()
    };
    let mut printer = table::Printer::new(global.json, home, journals);
    if let Some(session) = &global.session {
        if home.sessions_ever_seen()?.contains(session) {
            // A journal that is gone has no rows that would tell.
            printer.ask(session);
        } else if !options.follow {
            return Err(Failure::no_session(session));
        }
    }
    if options.follow {
        return follow::follow(home, index, &filter, &mut printer);
    }
    let mut rows = index.query(&filter)?;
    rows.reverse();
    printer.print(&rows)?;
    if rows.is_empty() && !global.json {
        ui::note("no calls");
    }
    if printer.any_undo && !global.json {
        ui::note("`helve undo CALL` puts back what was there before a call with UNDO `yes`");
    }
    Ok(())
}

/// The one call whose id begins so.
pub(crate) fn find(home: &Home, index: &mut Index, call: &str) -> Result<CallRow, Failure> {
    let filter =
        Filter { call: Some(call.to_owned()), limit: Some(2), newest_first: true, ..Filter::default() };
    let rows = index.query(&filter)?;
    let mut rows = rows.into_iter();
    match (rows.next(), rows.next()) {
        (None, _) if home.sessions_ever_seen()?.iter().any(|session| session == call) => {
            Err(Failure::not_found(format!(
                "{call:?} is a session and no call. `helve log --session {call}` lists its calls"
            )))
        }
        (None, _) => {
            let place = home.path().display();
            Err(Failure::not_found(format!(
                "no call begins with {call:?} in {place}. `helve log` lists them"
            )))
        }
        (Some(row), Some(other)) if row.call != other.call => {
            Err(Failure::usage(format!("several calls begin with {call:?}. Write more of the id")))
        }
        (Some(row), _) => Ok(row),
    }
}
