//! `helve batch`: many calls over one pipe.
//!
//! Four stages, each with a bounded line before it, so that memory stays bounded and nothing waits for anything that it
//! does not need:
//!
//! ```text
//! read (thread) ─ lines ─ admit ─ running calls, in order ─ collect ─ results ─ write (thread)
//! ```
//!
//! Admit takes a line through authorize and lets it run beside earlier ones where their access allows. Collect waits for
//! the oldest, so results keep the order of the lines; they are in the journal by then. The writer takes what is there
//! and writes it at once: it never holds a result back, and under load it writes many together.
//!
//! Not here: what a line means (`request`), how lines are cut from the input (`lines`).

mod lines;
mod request;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle as Thread;

use clap::Args as ClapArgs;
use helve::mcp::Gateway;
use helve::{CallResult, Cancel, CancelHandle, Runtime};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::args::{Global, Names};
use crate::failure::{CANCELLED, Failure, whoever_reads};
use crate::setup::{self, Running};
use crate::ui;
use lines::{Block, Line};
use request::{Refused, Slot};

/// Results that wait for the writer.
const RESULTS_WAITING: usize = 64;
/// The writer gathers at most this much before it writes.
const WRITE_BYTES: usize = 64 * 1024;

/// Make many calls: one JSON line in, one JSON line out
#[derive(ClapArgs)]
#[command(long_about = "\
Make many calls: one JSON line in, one JSON line out, in the same order.

A line is {\"id\":…,\"tool\":…,\"args\":{…}}; the id is echoed, and may be absent. A JSON array of such objects is one batch \
(one turn of a model) and gives one result line for each, or one for all if it holds more than limits.batch_calls. Later lines may overlap earlier ones where what they touch \
allows it. A line that is no call gives a result with the error kind invalid_params, and the work goes on; there was no call, so nothing of it is in the journal.

Exit code: 0 when all lines were processed, whatever came of the calls; 2 when the input cannot be read, which with --json a last line says; 130 when it was \
cancelled, also because nobody reads its results any more.")]
#[command(after_help = "\
Examples:
  helve batch < calls.jsonl > results.jsonl
  echo '{\"id\":1,\"tool\":\"echo\",\"args\":{\"message\":\"hi\"}}' | helve batch
  helve batch calls.jsonl --set parallel=false")]
pub(crate) struct Options {
    /// The file to read [default: standard input]
    file: Option<PathBuf>,
    #[command(flatten)]
    names: Names,
}

pub(crate) fn batch(global: &Global, options: &Options) -> Result<u8, Failure> {
    let policy = setup::policy(global)?;
    let limits = policy.limits();
    let workers = usize::try_from(limits.workers).unwrap_or(1).clamp(1, Semaphore::MAX_PERMITS);
    let blocks = lines::read(options.file.as_deref(), limits.batch_line_bytes)?;
    let fleet = setup::fleet(global, &policy)?;
    let running = match &fleet {
        None => Running::speaking(global, policy, options.names.dialect())?,
        Some(fleet) => Running::with_servers(global, policy, options.names.dialect(), fleet)?,
    };
    let (results, writer) = start_writer()?;
    let end = running.block_on(|runtime, cancel, canceller| async move {
        // The tools of servers that were seen before; a server starts when one of its tools is called.
        let _gateway = match &fleet {
            None => None,
            Some(fleet) => {
                fleet.recall().await;
                Some(Gateway::new(fleet, &runtime, usize::MAX))
            }
        };
        let end = process(runtime, cancel, canceller, blocks, results, workers).await;
        if let Some(fleet) = &fleet {
            fleet.close().await;
        }
        end
    })?;
    // The last results are on their way until the writer has ended.
    let written = writer.join().map_err(|_| Failure::internal("the writer of results failed"))?;
    whoever_reads(written.map_err(ui::cannot_print))?;
    end
}

/// One line on its way: its calls run, and what was wrong with the others.
struct Underway {
    running: JoinHandle<Vec<CallResult>>,
    slots: Vec<Option<Refused>>,
    /// The ids of the calls, for the one case in which no result comes back.
    ids: Vec<Option<Value>>,
    _turn: OwnedSemaphorePermit,
}

async fn process(
    runtime: Runtime,
    cancel: Cancel,
    canceller: CancelHandle,
    blocks: mpsc::Receiver<Block>,
    results: mpsc::Sender<Vec<u8>>,
    workers: usize,
) -> Result<u8, Failure> {
    let (underway, order) = mpsc::channel(workers);
    let admit = admit(runtime, &cancel, blocks, underway, workers);
    let collect = collect(order, results, &canceller);
    let (admitted, collected) = tokio::join!(admit, collect);
    collected?;
    admitted?;
    Ok(if cancel.is_cancelled() { CANCELLED } else { 0 })
}

/// Takes lines in, in order, as long as there is room for them to run.
async fn admit(
    runtime: Runtime,
    cancel: &Cancel,
    mut blocks: mpsc::Receiver<Block>,
    underway: mpsc::Sender<Underway>,
    workers: usize,
) -> Result<(), Failure> {
    let turns = Arc::new(Semaphore::new(workers));
    loop {
        let block = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(()),
            block = blocks.recv() => block,
        };
        let lines = match block {
            None => return Ok(()),
            Some(Block::Unreadable(message)) => return Err(Failure::usage(message)),
            Some(Block::Lines(lines)) => lines,
        };
        for Line { number, content } in lines {
            if cancel.is_cancelled() {
                return Ok(());
            }
            let (mut calls, mut slots) = (Vec::new(), Vec::new());
            for slot in request::read(number, content, runtime.policy().limits()) {
                match slot {
                    Slot::Call(call) => {
                        calls.push(call);
                        slots.push(None);
                    }
                    Slot::Refused(refused) => slots.push(Some(refused)),
                }
            }
            // Nothing closes the semaphore.
            let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return Ok(()) };
            let ids = calls.iter().map(|call| call.id.clone()).collect();
            let running = tokio::spawn(runtime.admit(calls).await.results());
            if underway.send(Underway { running, slots, ids, _turn: turn }).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Waits for the lines in order and hands their results to the writer, those together that are ready together. When
/// nobody reads them any more, the calls are taken back, and waited for, so that they end properly.
async fn collect(
    mut order: mpsc::Receiver<Underway>,
    results: mpsc::Sender<Vec<u8>>,
    canceller: &CancelHandle,
) -> Result<(), Failure> {
    let mut ready = Vec::new();
    let mut first_failure = None;
    loop {
        let next = order.try_recv().ok();
        let must_wait = next.as_ref().is_none_or(|line| !line.running.is_finished());
        if !ready.is_empty() && (must_wait || ready.len() >= WRITE_BYTES) {
            let sent = results.send(std::mem::take(&mut ready)).await;
            if sent.is_err() {
                canceller.cancel();
            }
        }
        let next = match next {
            Some(line) => Some(line),
            None => order.recv().await,
        };
        let Some(Underway { running, slots, ids, _turn }) = next else { break };
        if let Err(failure) = write_results(&mut ready, running.await.ok(), slots, ids) {
            first_failure.get_or_insert(failure);
            canceller.cancel();
        }
    }
    first_failure.map_or(Ok(()), Err)
}

/// One result a line, in the order of the calls, what was refused in its place.
fn write_results(
    text: &mut Vec<u8>,
    results: Option<Vec<CallResult>>,
    slots: Vec<Option<Refused>>,
    ids: Vec<Option<Value>>,
) -> Result<(), Failure> {
    let mut results = results.unwrap_or_default().into_iter();
    let mut ids = ids.into_iter();
    for slot in slots {
        let written = match slot {
            Some(refused) => serde_json::to_writer(&mut *text, &refused),
            None => {
                let id = ids.next().flatten();
                match results.next() {
                    Some(result) => serde_json::to_writer(&mut *text, &result),
                    None => serde_json::to_writer(&mut *text, &Refused::lost(id)),
                }
            }
        };
        written.map_err(|error| Failure::internal(error.to_string()))?;
        text.push(b'\n');
    }
    Ok(())
}

type Written = io::Result<()>;

/// Writes results as they come, on a thread of its own: a reader that is slow holds up nothing but the results.
fn start_writer() -> Result<(mpsc::Sender<Vec<u8>>, Thread<Written>), Failure> {
    let (results, mut waiting) = mpsc::channel::<Vec<u8>>(RESULTS_WAITING);
    let write = move || {
        let mut out = io::stdout().lock();
        while let Some(mut text) = waiting.blocking_recv() {
            while text.len() < WRITE_BYTES {
                let Ok(more) = waiting.try_recv() else { break };
                text.extend_from_slice(&more);
            }
            out.write_all(&text)?;
            out.flush()?;
        }
        Ok(())
    };
    let thread = std::thread::Builder::new().name("results".to_owned()).spawn(write);
    let thread = thread.map_err(|error| Failure::internal(format!("a thread cannot start: {error}")))?;
    Ok((results, thread))
}
