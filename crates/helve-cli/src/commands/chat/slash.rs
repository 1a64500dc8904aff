//! What a person can ask of Helve itself in the midst of a talk: lines that begin with `/`.

use std::fmt::Write as _;

use crate::args::Global;
use crate::commands::agent::show;
use crate::commands::agent::start::Talk;
use crate::commands::{diff, policy, undo};
use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::ui;

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The talk goes on.
    Go,
    /// The same, and the model should hear this with the next message.
    Tell(String),
    /// The talk ends.
    Quit,
}

const HELP: &str = "\
/tools          the tools that the model has
/policy         the rules that decide about its calls
/diff [CALL]    what its last call that changed files changed, or another one
/undo [CALL]    put back what was there before
/cost           tokens and money so far
/model [P:N]    which model answers; with a name, another one from now on
/help           this
/quit           the end; so is Ctrl-D

A line that ends in \\ goes on in the next. A line of \"\"\" begins and ends a message of many lines.
Ctrl-C once stops the running calls, twice the run; at the prompt it gives up the line.
";

/// Does what a line says; none if the line is for the model.
pub(super) async fn take(talk: &mut Talk, global: &Global, line: &str) -> Option<Result<Next, Failure>> {
    let (word, rest) = line.strip_prefix('/')?.split_once(char::is_whitespace).unwrap_or((&line[1..], ""));
    let rest = rest.trim();
    // A path is no command.
    if word.contains('/') {
        return None;
    }
    let done = match word {
        "help" | "?" => ui::heard::print(HELP).map(|()| Next::Go),
        "tools" => tools(talk).map(|()| Next::Go),
        "policy" => policy::show_rules(global).map(|()| Next::Go),
        "diff" => show_diff(talk, rest).await.map(|()| Next::Go),
        "undo" => take_back(talk, rest).await,
        "cost" => cost(talk).map(|()| Next::Go),
        "model" => model(talk, global, rest).map(|()| Next::Go),
        "quit" | "exit" => Ok(Next::Quit),
        other => {
            Err(Failure::usage(format!("there is no /{}; /help lists what there is", one_line(other, 40))))
        }
    };
    Some(done)
}

fn tools(talk: &Talk) -> Result<(), Failure> {
    let mut text = String::new();
    let columns = ui::columns().unwrap_or(100);
    for spec in talk.agent.tools() {
        let name = one_line(&spec.name, 60);
        let room = columns.saturating_sub(name.len().max(16) + 3).max(20);
        let _ = writeln!(text, "{name:16}  {}", one_line(&spec.description, room));
    }
    ui::heard::print_styled(&text)
}

/// The call that is meant: the one that is named, or the last of this session that changed files.
fn meant(talk: &Talk, call: &str) -> Result<String, Failure> {
    if !call.is_empty() {
        return Ok(call.to_owned());
    }
    let entries = undo::of_session(&talk.runtime, Some(talk.session()))?;
    Ok(undo::last(&entries).ok_or_else(undo::none)?.record.call.clone())
}

async fn show_diff(talk: &Talk, call: &str) -> Result<(), Failure> {
    let call = meant(talk, call)?;
    ui::heard::print_styled(&diff::of_call(&talk.runtime, &call).await?)
}

async fn take_back(talk: &Talk, call: &str) -> Result<Next, Failure> {
    let call = meant(talk, call)?;
    let result = talk.runtime.undo(&call, false).await.map_err(|error| diff::told(&error))?;
    ui::heard::print(&harmless(&result.text()))?;
    Ok(match result.ok {
        true => Next::Tell(format!("(The owner has undone the call {call}: its changes to files are gone.)")),
        false => Next::Go,
    })
}

fn cost(talk: &Talk) -> Result<(), Failure> {
    let (all, about) = talk.agent.about();
    let cost = talk.card.price.map(|price| price.of(&all));
    let unknown = if cost.is_none() { ", price not known (model.price_input …)" } else { "" };
    ui::heard::print(&format!("{}{unknown}", show::spent(&talk.agent.usage(), cost, about)))
}

fn model(talk: &mut Talk, global: &Global, name: &str) -> Result<(), Failure> {
    if !name.is_empty() {
        talk.ask_another(name, global)?;
    }
    let card = &talk.card;
    ui::heard::print(&format!(
        "{}:{}, {} tokens fit into it",
        one_line(&card.provider, 40),
        one_line(&card.name, 100),
        card.context_window
    ))
}
