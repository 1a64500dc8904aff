//! `helve mcp pins`: the definitions of tools that the owner agreed to.

use std::fmt::Write as _;

use clap::Args as ClapArgs;
use helve::store::Pins;
use serde_json::{Value, json};

use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::{moment, setup, ui};

#[derive(ClapArgs)]
pub(super) struct Options {
    /// Only those of this server
    name: Option<String>,
}

pub(super) fn pins(global: &Global, options: &Options) -> Result<(), Failure> {
    let pins = setup::existing_home()?.map(|home| Pins::new(&home));
    let Some(pins) = pins else { return shown(global, Vec::new()) };
    let servers = match &options.name {
        Some(name) => vec![name.clone()],
        None => pins.servers()?,
    };
    let mut all = Vec::new();
    for server in servers {
        all.extend(pins.of(&server)?.unwrap_or_default().into_iter().map(|pin| (server.clone(), pin)));
    }
    shown(global, all)
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
