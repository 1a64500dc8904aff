//! `helve agent`: a task for a model that works with the tools until it is done.
//!
//! | module | does |
//! |---|---|
//! | `start` | model, tools, session and who is asked, from options and configuration |
//! | `choose`, `key` | which model, and where its key comes from |
//! | `rules` | what the owner agreed to beforehand |
//! | `turn` | one run |
//! | `show`, `live` | how a run is shown |
//! | `hands` | Ctrl-C |
//!
//! Deliberately not here: the loop itself, which is `helve-agent`'s, and anything that decides about a call.

pub(crate) mod choose;
pub(crate) mod hands;
mod key;
mod live;
mod rules;
pub(crate) mod show;
pub(crate) mod start;
pub(crate) mod turn;

use std::io::Read as _;

use clap::Args as ClapArgs;

use crate::args::Global;
use crate::failure::{Failure, whoever_reads};
use crate::harmless::one_line;
use crate::ui;
use show::Reader;
use start::{Setup, Which};
use turn::Left;

/// A longer task is none; it belongs into a file that the task names.
const TASK_BYTES: u64 = 4 << 20;

/// Give a model a task; it works with the tools until it is done
#[derive(ClapArgs)]
#[command(long_about = "\
Give a model a task; it works with the tools until it is done.

The model is asked, what it wants to do goes through the same pipeline as every call (rules, sandbox, journal), it sees what \
came of it and goes on. What the sandbox contains runs without a question; what crosses it is asked about on the terminal, all \
questions of a turn at once; where there is no terminal, --approve or approval.hook answers, else the model is told that \
nobody agreed. Ctrl-C once stops the running calls, twice the run. A line that you type meanwhile is told to the model before \
it goes on.

The model stands in your configuration, [model] use = \"provider:name\", or behind --model. Keys come from model.key_command, \
from the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or model.key_env), or from the file model-keys in the \
state directory; nothing in a workspace can name any of them. Nothing of a key is ever recorded.

Standard output carries what the model says: on a terminal all of it, else its last answer alone. With --json it carries every \
event of the run, one a line.

Exit code: 0 the model answered; 1 it failed, made no progress, or reached a bound; 2 bad usage, or no model is configured; 124 \
the time was up; 130 it was stopped, also because nobody reads its output any more.")]
#[command(after_help = "\
Examples:
  helve agent \"find the failing test and mend it\"
  helve agent --model ollama:qwen3 \"what is in this directory?\"
  helve agent --model openai-compatible:local --base-url http://localhost:8080/v1 \"say hello\"
  git diff | helve agent --toolset readonly - --max-rounds 20 --json
  helve agent --approve 'git push origin *' --max-cost 0.50 \"push the branch\"
  helve agent --resume agent-1f2e3d4c-20260131T100000-5a5a \"and now the other one\"")]
pub(crate) struct Options {
    /// What to do; - reads it from standard input
    #[arg(value_name = "TASK")]
    task: String,
    /// Go on with the talk of this session
    #[arg(long, value_name = "SESSION")]
    resume: Option<String>,
    #[command(flatten)]
    setup: Setup,
}

pub(crate) fn agent(global: &Global, options: &Options) -> Result<u8, Failure> {
    ui::lane::open();
    let policy = start::policy(global, &options.setup)?;
    let task = task(&options.task)?;
    let which = match &options.resume {
        Some(session) => start::resumable(session)?,
        None => Which::New { kind: "agent" },
    };
    let ready = start::ready(global, &options.setup, policy, which)?;
    let reader = match global.json {
        true => Reader::Program,
        false => Reader::Person { streams: ui::stdout_is_terminal() },
    };
    let mut left = Left::default();
    let ended = start::block_on(async {
        let mut talk = ready.talk().await?;
        let turn = turn::turn(&mut talk, task, reader).await;
        let closed = turn::close(&mut talk, reader).await;
        talk.stop().await;
        if reader != Reader::Program {
            ui::note(&format!("the session is {}; --resume goes on with it", talk.session()));
        }
        left = std::mem::take(&mut talk.left);
        let turn = turn?;
        whoever_reads(closed)?;
        for text in &turn.unheard {
            ui::note(&format!("the model ended before it heard: {}", one_line(text, 200)));
        }
        Ok(show::exit_code(&turn.ending))
    })?;
    left.code(ended)
}

/// What came on standard input. A byte that is no text is told and marked, and costs nothing of the rest.
pub(super) fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        ui::note(
            "standard input is not all UTF-8: the model sees U+FFFD in place of what is not; \
             `iconv -f ENCODING -t UTF-8` turns text of another encoding",
        );
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    })
}

/// The task, from the command line or standard input.
fn task(word: &str) -> Result<String, Failure> {
    let mut text = word.to_owned();
    if word == "-" {
        let wrong =
            |why: String| Failure::usage(format!("the task cannot be read from standard input: {why}"));
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(TASK_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| wrong(error.to_string()))?;
        if bytes.len() as u64 > TASK_BYTES {
            return Err(wrong(format!(
                "it is longer than {TASK_BYTES} bytes; put it into a file and name that"
            )));
        }
        text = text_of(bytes);
    }
    match text.trim() {
        "" => Err(Failure::usage(
            "the task is empty. Write it behind `helve agent`, or - and give it to standard input",
        )),
        text => Ok(text.to_owned()),
    }
}
