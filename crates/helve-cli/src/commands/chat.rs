//! `helve chat`: a talk with a model that has the tools, message by message.
//!
//! | module | does |
//! |---|---|
//! | `input` | messages from a terminal or a pipe |
//! | `slash` | what is asked of Helve itself |
//!
//! How a run is put together and shown is `helve agent`'s.

mod input;
mod slash;

use std::io::IsTerminal as _;

use clap::Args as ClapArgs;
use helve_agent::talk::Message;

use super::agent::show::{self, Reader};
use super::agent::start::{self, Setup, Talk, Which};
use super::agent::turn::{Left, close, turn};
use crate::args::Global;
use crate::failure::{Failure, whoever_reads};
use crate::harmless::one_line;
use crate::{approve, setup, ui};
use input::{Input, Said};
use slash::Next;

/// How the names of sessions begin.
const KIND: &str = "chat";

/// Talk with a model that has the tools
#[derive(ClapArgs)]
#[command(long_about = "\
Talk with a model that has the tools, message by message.

Each message is a run as `helve agent` makes it: the model works with the tools until it has an answer, and what crosses the \
sandbox is asked about. The talk is kept in a session of its own; --resume goes on with the last one of this workspace, or with \
the one that is named.

A line that ends in \\ goes on in the next; a line of \"\"\" begins and ends a message of many lines. Lines that begin with / are \
for Helve: /help lists them. A line that you type while the model works is told to it before it goes on. Ctrl-C once stops the running \
calls, twice the run; Ctrl-D ends the talk. From a pipe every line \
is a message, also one that begins with /, and standard output carries the answers alone; with --json it carries every event.

Exit code: 0 at the end of a talk on a terminal; from a pipe that of the last run (see `helve agent --help`).")]
#[command(after_help = "\
Examples:
  helve chat
  helve chat --resume
  helve chat --model anthropic:NAME --toolset readonly
  printf 'what is here?\\nand what is new?\\n' | helve chat --model ollama:qwen3")]
pub(crate) struct Options {
    /// Go on with a talk: the last one of this workspace, or that of the session that is named
    #[arg(long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "")]
    resume: Option<String>,
    #[command(flatten)]
    setup: Setup,
}

pub(crate) fn chat(global: &Global, options: &Options) -> Result<u8, Failure> {
    ui::lane::open();
    let policy = start::policy(global, &options.setup)?;
    let which = match options.resume.as_deref() {
        None => Which::New { kind: KIND },
        Some("") => {
            let named = setup::named_session(global, &policy);
            let last = match named {
                Some(named) => Some(named),
                None => start::last_session(KIND, &setup::workspace(global)?)?,
            };
            let last = last.ok_or_else(|| {
                Failure::not_found("there is no talk of this workspace yet; `helve chat` begins one")
            })?;
            start::resumable(&last)?
        }
        Some(session) => start::resumable(session)?,
    };
    let ready = start::ready(global, &options.setup, policy, which)?;
    let reader = match global.json {
        true => Reader::Program,
        false => Reader::Person { streams: ui::stdout_is_terminal() },
    };
    let mut left = Left::default();
    let ended = start::block_on(async {
        let mut talk = ready.talk().await?;
        let ended = converse(&mut talk, global, reader).await;
        left = std::mem::take(&mut talk.left);
        let closed = close(&mut talk, reader).await;
        talk.stop().await;
        if reader != Reader::Program && !talk.agent.messages().is_empty() {
            ui::note(&format!("the session is {}; --resume goes on with it", talk.session()));
        }
        ended.and_then(|code| whoever_reads(closed).map(|()| code))
    })?;
    left.code(ended)
}

async fn converse(talk: &mut Talk, global: &Global, reader: Reader) -> Result<u8, Failure> {
    let at_terminal = approve::is_somebody_there() && reader != Reader::Program;
    let at_keyboard = std::io::stdin().is_terminal();
    let before: Vec<String> = talk.agent.messages().iter().filter_map(said_by_owner).collect();
    if at_terminal {
        greet(talk, before.last());
    }
    let input = Input::new(before.into_iter());
    let mut code = 0;
    let (mut tell, mut unheard) = (String::new(), Vec::new());
    loop {
        // What came too late for a run is the next message.
        let next = match unheard.is_empty() {
            true => input.next().await?,
            false => Said::Message(std::mem::take(&mut unheard).join("\n")),
        };
        let text = match next {
            Said::Message(text) if text.trim().is_empty() => continue,
            Said::Message(text) => text.trim().to_owned(),
            Said::GivenUp => {
                ui::note("Ctrl-D or /quit ends the talk");
                continue;
            }
            Said::NotText => {
                ui::note("a key came that is not UTF-8, and the line is given up; set the terminal to UTF-8");
                continue;
            }
            Said::End => return Ok(if at_terminal { 0 } else { code }),
        };
        // Whoever writes into a pipe says things to the model; only a person asks something of Helve.
        let asked = match at_keyboard {
            true => slash::take(talk, global, &text).await,
            false => None,
        };
        match asked {
            None => {
                let text = match tell.is_empty() {
                    true => text,
                    false => format!("{}\n\n{text}", std::mem::take(&mut tell)),
                };
                let turn = turn(talk, text, reader).await?;
                code = show::exit_code(&turn.ending);
                if talk.hands.is_ending() {
                    return Ok(code);
                }
                unheard = turn.unheard;
            }
            Some(Ok(Next::Go)) => {}
            Some(Ok(Next::Tell(what))) => tell = what,
            Some(Ok(Next::Quit)) => return Ok(if at_terminal { 0 } else { code }),
            Some(Err(Failure::ReaderGone)) => return Err(Failure::ReaderGone),
            // What went wrong with one line does not end the talk.
            Some(Err(failure)) => ui::error(&failure.message()),
        }
    }
}

/// Says which model messages go to, and where a talk was left.
fn greet(talk: &Talk, last: Option<&String>) {
    let card = &talk.card;
    let who = format!("{}:{}", one_line(&card.provider, 40), one_line(&card.name, 80));
    let resumed = last.map(|last| format!("; you said last: {}", one_line(last, 60))).unwrap_or_default();
    ui::note(&format!("model {who}; /help says what else there is{resumed}"));
}

/// What the owner said, not the loop.
fn said_by_owner(message: &Message) -> Option<String> {
    match message {
        Message::User(said) if !said.from_loop => Some(said.text.clone()),
        _ => None,
    }
}
