//! `helve mcp pins`: the definitions of tools that the owner agreed to.

use std::fmt::Write as _;

use clap::Args as ClapArgs;
use helve::store::Pins;
use serde_json::{Value, json};

use super::config;
use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::{moment, setup, ui};

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  helve mcp pins
  helve mcp pins time --json")]
pub(super) struct Options {
    /// Only those of this server
    name: Option<String>,
}

pub(super) fn pins(global: &Global, options: &Options) -> Result<(), Failure> {
    let pins = setup::existing_home()?.map(|home| Pins::new(&home));
    let servers = match (&options.name, &pins) {
        (Some(name), _) => vec![name.clone()],
        (None, Some(pins)) => pins.servers()?,
        (None, None) => Vec::new(),
    };
    let (mut all, mut damaged) = (Vec::new(), None);
    for server in servers {
        let of_server = pins.as_ref().map_or(Ok(None), |pins| pins.of(&server));
        match of_server {
            Ok(of_server) => {
                all.extend(of_server.unwrap_or_default().into_iter().map(|pin| (server.clone(), pin)));
            }
            // What is known of the others is shown before that is said.
            Err(error) => damaged = Some(error),
        }
    }
    if let (true, None, Some(name)) = (all.is_empty(), &damaged, &options.name) {
        // A name that is not configured and left nothing is most likely a slip.
        config::server(&setup::policy(global)?, name)?;
    }
    match damaged {
        Some(error) if global.json => Err(error.into()),
        Some(error) => {
            shown(global, all)?;
            Err(error.into())
        }
        None => shown(global, all),
    }
}

fn shown(global: &Global, pins: Vec<(String, helve::store::Pin)>) -> Result<(), Failure> {
    if global.json {
        let pins: Vec<Value> = pins
            .iter()
            .map(|(server, pin)| json!({"server": server, "tool": pin.tool, "hash": pin.hash, "pinned_at_us": pin.pinned_at_us, "definition": pin.definition}))
            .collect();
        return ui::print_json(&pins);
    }
    if pins.is_empty() {
        ui::note("nothing is pinned: the tools of a server are when it is first started");
    }
    let mut text = String::new();
    for (server, pin) in &pins {
        let hash: String = pin.hash.chars().take(19).collect();
        let tool = one_line(&pin.tool, 80);
        let when = moment::show(pin.pinned_at_us);
        let _ = writeln!(text, "{when}  {}  {server}  {tool}", ui::styled(ui::FAINT, &one_line(&hash, 19)));
    }
    ui::print_styled(&text)
}
