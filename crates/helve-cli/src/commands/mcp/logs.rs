//! `helve mcp logs`: what happened to a server, and what it wrote to standard error.

use std::fmt::Write as _;

use clap::Args as ClapArgs;
use helve::store::ServerLogs;

use super::config;
use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::{moment, setup, ui};

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  helve mcp logs time
  helve mcp logs time --lines 20")]
pub(super) struct Options {
    /// The server
    name: String,
    /// Only this many of the newest lines
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    lines: usize,
}

pub(super) fn logs(global: &Global, options: &Options) -> Result<(), Failure> {
    let home = setup::existing_home()?;
    let events =
        home.map(|home| ServerLogs::new(&home, 0).of(&options.name)).transpose()?.unwrap_or_default();
    if events.is_empty() {
        // A name that is not configured and left nothing is most likely a slip.
        config::server(&setup::policy(global)?, &options.name)?;
    }
    let newest = &events[events.len().saturating_sub(options.lines)..];
    if global.json {
        return ui::print_json(&newest);
    }
    if events.is_empty() {
        ui::note("nothing has happened to it yet");
    }
    let mut text = String::new();
    for event in newest {
        let style = match event.kind.as_str() {
            "failed" | "refused" | "ended" => ui::BAD,
            "changed" => ui::CAREFUL,
            "stderr" => ui::FAINT,
            _ => ui::GOOD,
        };
        let kind = ui::styled(style, &format!("{:8}", one_line(&event.kind, 20)));
        let _ = writeln!(text, "{}  {kind}  {}", moment::show(event.at_us), one_line(&event.text, 2000));
    }
    ui::print_styled(&text)
}
