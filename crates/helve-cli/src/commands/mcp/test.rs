//! `helve mcp test`: starts one server as a call would, and says what it answers.

use clap::Args as ClapArgs;

use super::{config, list, live};
use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::harmless;
use crate::{setup, ui};

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  helve mcp test time
  helve mcp test time --json")]
pub(super) struct Options {
    /// The server
    name: String,
}

pub(super) fn test(global: &Global, options: &Options) -> Result<u8, Failure> {
    let policy = setup::policy(global)?;
    let server = config::enabled_server(&policy, &options.name)?;
    for variable in &server.unset {
        ui::note(&harmless(&format!("{variable} is not set, so {} does not get it", options.name)));
    }
    if let Some(text) = list::not_there(&server) {
        ui::note(&harmless(&format!("{}: {text}", options.name)));
    }
    let fleet = live::fleet(global, &policy)?;
    let answer = live::block_on(async {
        let answer = fleet.look(&options.name).await;
        fleet.close().await;
        answer
    })?;
    if global.json {
        ui::print_json(&live::as_json(&answer))?;
        return Ok(answer.err().map_or(0, |error| live::code(&error)));
    }
    match answer {
        Ok(look) => {
            let (text, waiting) =
                (live::tools(&look), look.tools.iter().filter(|tool| live::waits(tool)).count());
            let kept_out = look.tools.iter().filter(|tool| live::kept_out(tool).is_some()).count();
            ui::print_styled(&format!(
                "{} {}\n{text}",
                ui::styled(ui::STRONG, &options.name),
                live::on_one_line(&Ok(look))
            ))?;
            if kept_out > 0 {
                ui::note(&format!(
                    "{} kept out of calls: the author has to correct the schema",
                    live::counted(kept_out)
                ));
            }
            if waiting > 0 {
                ui::note(&format!(
                    "{} off until you agree: `helve mcp trust {}` shows why",
                    live::counted(waiting),
                    options.name
                ));
            }
            Ok(0)
        }
        Err(error) => Err(live::told(&error)),
    }
}
