//! MCP over standard streams: `helve-bench mcp`.
//!
//! Every row talks to real processes in the words of the protocol, one line a message. A call through the gateway stands
//! beside the same call of the same server without it, Helve's own `echo` beside that of server-everything, a list of a
//! thousand tools beside `serde_json` writing the same bytes. Calls that are sent at once must all be answered, each once
//! and with its own text, or the run fails.
//!
//! Calls are measured in two ways. One at a time is how long one takes: most of it is two processes that wake each other.
//! With several under way is how many a server answers in a second; there the client must not be what is measured, so one row
//! is a server that does nothing but answer. Likewise a relay that does nothing but pass on stands beside the gateway, and one that
//! also records what passes: what the first takes, every process between a client and a server takes, and what the second
//! takes, every one that lets nothing pass unrecorded.
//!
//! A server that compiles itself while it runs is quicker the more it was called, and takes every processor meanwhile, so that
//! whoever stands before it is slow as well. So every server is started anew for each round, and rows stand in threes: a run from
//! that start, its first calls, and those further on without a pause. A promise is held against all of them, although they ask
//! for opposite things: first calls are dear for whoever shares the processors with a server that compiles, and one that has
//! done so answers quickly.
//!
//! A machine is slower in one minute than in the next. What stands in one row was measured next to each other, and a row shows
//! the round whose ratio is in the middle.
//!
//! server-everything is named with `--everything 'node /…/server-everything/dist/index.js stdio'`. Without it a small server
//! of this program's own stands in: its rows are shown and promise nothing, because a server that does nothing makes
//! everything around it look dear.

mod client;
mod server;
mod talk;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::talk::Talk;
use crate::report::{Promise, Row};
use crate::sample::{in_turns, median};

type Measured<T> = Result<T, Box<dyn std::error::Error>>;

pub(crate) use client::{CLIENT, be};
pub(crate) use server::{recorder, relay, serve};

/// The word with which this program is its own small server.
pub(crate) const SERVER: &str = "mcp-server";
/// The word with which it passes on what is said to and by another server.
pub(crate) const RELAY: &str = "mcp-relay";
/// The word with which it does so and records it.
pub(crate) const RECORDER: &str = "mcp-recorder";
/// How many tools the small server has when it is asked for many.
const MANY: usize = 1000;
/// How many calls are sent at once.
const AT_ONCE: usize = 100;
/// How many calls are under way where many a second are counted.
const UNDER_WAY: usize = 32;
/// How many calls a run is, how many of them are the first, how many come behind it before later ones are timed, and how many
/// these are.
const RUN: u32 = 10_000;
const FIRST: u32 = 2_000;
const BETWEEN: u32 = 10_000;
const LATER: u32 = 10_000;

/// What is asked of the run.
pub(crate) struct Asked<'a> {
    /// Fewer rounds.
    pub(crate) quick: bool,
    /// The program `helve`.
    pub(crate) helve: &'a Path,
    /// The command line of server-everything, if one was named.
    pub(crate) everything: Option<String>,
    /// Clients of others: how each is called, and its command.
    pub(crate) clients: &'a [(String, Vec<String>)],
}

/// A server that is measured with and without Helve around it.
struct Server {
    words: Vec<String>,
    /// What it needs to see.
    roots: Vec<PathBuf>,
}

impl Server {
    /// This program, with so many tools.
    fn own(tools: usize) -> Measured<Server> {
        let program = std::env::current_exe()?.canonicalize()?;
        let roots = program.parent().map(Path::to_owned).into_iter().collect();
        Ok(Server { words: vec![program.display().to_string(), SERVER.to_owned(), tools.to_string()], roots })
    }

    /// A command line, with what its absolute paths need: all of the packages around a package, else the directory; where a path is
    /// a link, both the link and what it leads to.
    fn named(line: &str) -> Server {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let root = |path: &Path| {
            let packages = path.ancestors().filter(|dir| dir.ends_with("node_modules")).last();
            packages.or_else(|| path.parent()).map(Path::to_owned)
        };
        let named = words.iter().map(Path::new).filter(|word| word.is_absolute());
        let led = named.filter_map(|word| Some([word.to_owned(), word.canonicalize().ok()?]));
        let roots: BTreeSet<PathBuf> = led.flatten().filter_map(|path| root(&path)).collect();
        Server { words, roots: roots.into_iter().collect() }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command
    }

    /// The same with a program of these words before it, which is this one.
    fn behind(&self, before: &[&str]) -> Measured<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(before).args(&self.words);
        Ok(command)
    }

    /// The configuration under which Helve runs it.
    fn configuration(&self) -> String {
        let (command, args) = (json!(self.words[0]), json!(self.words[1..]));
        let roots = json!(self.roots);
        format!(
            "mcp.schema_budget = 1000000000\n[mcp.servers.peer]\ncommand = {command}\nargs = {args}\nread = {roots}\n\
             approval = \"never\"\nper_minute = 100000\nper_hour = 100000\n"
        )
    }
}

/// Where the measured program keeps its state and works.
struct Place {
    root: tempfile::TempDir,
    helve: PathBuf,
}

impl Place {
    fn new(helve: &Path, configuration: &str) -> Measured<Place> {
        let root = tempfile::tempdir()?;
        std::fs::create_dir_all(root.path().join("workspace"))?;
        std::fs::create_dir_all(root.path().join("config/helve"))?;
        std::fs::write(root.path().join("config/helve/helve.toml"), configuration)?;
        Ok(Place { root, helve: helve.to_owned() })
    }

    fn helve(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.helve);
        command
            .args(args)
            .current_dir(self.root.path().join("workspace"))
            .env("HELVE_HOME", self.root.path().join("state"))
            .env("XDG_CONFIG_HOME", self.root.path().join("config"));
        command
    }
}

/// Every row.
pub(crate) fn measure(asked: &Asked<'_>) -> Measured<Vec<Row>> {
    let server = match &asked.everything {
        Some(line) => Server::named(line),
        None => Server::own(1)?,
    };
    let place = Place::new(asked.helve, &server.configuration())?;
    let mut rows = gateway(asked, &place, &server)?;
    rows.extend(clients(asked, &place, &server)?);
    rows.extend(echo(asked, &place, &server)?);
    rows.push(client_alone(asked)?);
    rows.extend(at_once(asked, &place)?);
    rows.push(list(asked)?);
    Ok(rows)
}

/// A promise that holds beside the real server alone.
fn beside_real(asked: &Asked<'_>, promise: Promise) -> Promise {
    if asked.everything.is_some() { promise } else { Promise::None }
}

fn peer(asked: &Asked<'_>) -> &'static str {
    if asked.everything.is_some() { "server-everything, direct" } else { "a small server, direct" }
}

/// How long one call took: of a run from the start, of the first of these, and of those further on.
#[derive(Clone, Copy)]
struct Run {
    whole: Duration,
    first: Duration,
    later: Duration,
}

/// Of what was measured in the same rounds the round whose ratio is in the middle: what the one took, and what the other.
fn middle(subject: &[Run], reference: &[Run], part: Part) -> (Duration, Duration) {
    let mut rounds: Vec<_> =
        subject.iter().zip(reference).map(|(one, other)| (part(one), part(other))).collect();
    let ratio = |(one, other): &(Duration, Duration)| one.as_secs_f64() / other.as_secs_f64();
    rounds.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    rounds.get(rounds.len() / 2).copied().unwrap_or_default()
}

/// Calls without a pause, and how long parts of them took. One call comes before: a gateway that has
/// seen a server before offers its tools at once and starts it meanwhile, and the start is not what is measured.
fn run(asked: &Asked<'_>, mut calls: impl FnMut(u32) -> Measured<()>) -> Measured<Run> {
    let of = |calls: u32| if asked.quick { calls / 100 } else { calls };
    calls(1)?;
    let mut timed = |count: u32| -> Measured<Duration> {
        let start = Instant::now();
        calls(of(count))?;
        Ok(start.elapsed())
    };
    let (first, rest) = (timed(FIRST)?, timed(RUN - FIRST)?);
    timed(BETWEEN)?;
    let later = timed(LATER)?;
    Ok(Run { whole: (first + rest) / of(RUN), first: first / of(FIRST), later: later / of(LATER) })
}

/// Rounds in which everything is started anew: where the kernel puts the processes of one start is chance, and stays.
fn rounds(asked: &Asked<'_>) -> usize {
    if asked.quick { 1 } else { 11 }
}

/// Calls of the same server with and without Helve between.
fn gateway(asked: &Asked<'_>, place: &Place, server: &Server) -> Measured<Vec<Row>> {
    let tool = "mcp__peer__echo";
    let state = place.root.path().join("recorded").display().to_string();
    let through = || -> Measured<Talk> {
        let mut talk = Talk::open(place.helve(&["mcp", "--gateway"]))?;
        talk.wait_for_tool(tool, Duration::from_secs(30))?;
        Ok(talk)
    };
    let (mut helve, mut direct, mut relay, mut recorder) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds(asked) {
        let one = |mut talk: Talk, tool: &str, runs: &mut Vec<Run>| -> Measured<()> {
            runs.push(run(asked, |calls| repeat(&mut talk, tool, calls))?);
            Ok(())
        };
        one(through()?, tool, &mut helve)?;
        one(Talk::open(server.command())?, "echo", &mut direct)?;
        one(Talk::open(server.behind(&[RELAY])?)?, "echo", &mut relay)?;
        one(Talk::open(server.behind(&[RECORDER, &state])?)?, "echo", &mut recorder)?;
    }
    let (mut through, mut alone) = (through()?, Talk::open(server.command())?);
    let calls = if asked.quick { 50 } else { 1_000 };
    let many = in_turns(
        if asked.quick { 5 } else { 15 },
        calls,
        || through.stream(tool, calls, UNDER_WAY),
        || alone.stream("echo", calls, UNDER_WAY),
    )?;
    let row = |name, runs: &[Run], part, promise| compared(asked, name, middle(runs, &direct, part), promise);
    let (whole, first, later): (Part, Part, Part) = (|run| run.whole, |run| run.first, |run| run.later);
    let (promised, none) = (beside_real(asked, Promise::Ratio(1.5)), Promise::None);
    Ok(vec![
        row("helve mcp --gateway, 10,000 calls from a start", &helve, whole, promised),
        row("the same through a relay that only passes on", &relay, whole, none),
        row("the same through a relay that records", &recorder, whole, none),
        row("the first 2,000 of them through the gateway", &helve, first, promised),
        row("the same through a relay that only passes on", &relay, first, none),
        row("the same through a relay that records", &recorder, first, none),
        row("through the gateway, calls 20,000 to 30,000", &helve, later, promised),
        row("the same through a relay that only passes on", &relay, later, none),
        row("the same through a relay that records", &recorder, later, none),
        compared(asked, "through the gateway, 32 calls under way", (many.subject, many.reference), none),
    ])
}

/// The same with the clients that people have, which take longer for a call than a server does. `rmcp` is always there.
fn clients(asked: &Asked<'_>, place: &Place, server: &Server) -> Measured<Vec<Row>> {
    let own = std::env::current_exe()?.display().to_string();
    let own = ("rmcp".to_owned(), vec![own, CLIENT.to_owned()]);
    let mut rows = Vec::new();
    for (name, client) in std::iter::once(&own).chain(asked.clients) {
        let (mut helve, mut direct) = (Vec::new(), Vec::new());
        for _ in 0..rounds(asked) {
            let through = place.helve(&["mcp", "--gateway"]);
            helve.push(client::run(client, "mcp__peer__echo", &through, asked.quick)?);
            direct.push(client::run(client, "echo", &server.command(), asked.quick)?);
        }
        let mut row = |part, what: &str| {
            let promise = beside_real(asked, Promise::Ratio(1.5));
            rows.push(compared(asked, format!("{name}: {what}"), middle(&helve, &direct, part), promise));
        };
        row(|run: &Run| run.whole, "gateway, 10,000 calls from a start");
        row(|run| run.first, "the first 2,000 of them");
        row(|run| run.later, "calls 20,000 to 30,000");
    }
    Ok(rows)
}

/// A part of a run.
type Part = fn(&Run) -> Duration;

/// What Helve takes beside what the server takes.
fn compared(
    asked: &Asked<'_>,
    name: impl Into<Cow<'static, str>>,
    times: (Duration, Duration),
    promise: Promise,
) -> Row {
    Row { name: name.into(), subject: times.0, reference: Some((peer(asked), times.1)), promise, mib: None }
}

/// Our own `echo` beside that of the other server.
fn echo(asked: &Asked<'_>, place: &Place, server: &Server) -> Measured<Vec<Row>> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds(asked) {
        for (command, runs) in [(place.helve(&["mcp"]), &mut ours), (server.command(), &mut theirs)] {
            let mut talk = Talk::open(command)?;
            runs.push(run(asked, |calls| talk.stream("echo", calls, UNDER_WAY))?);
        }
    }
    let (mut us, mut them) = (Talk::open(place.helve(&["mcp"]))?, Talk::open(server.command())?);
    let (turns, calls) = if asked.quick { (5, 100) } else { (15, 1_000) };
    let one = in_turns(turns, calls, || repeat(&mut us, "echo", calls), || repeat(&mut them, "echo", calls))?;
    let row = |name, part, promise| compared(asked, name, middle(&ours, &theirs, part), promise);
    let promised = beside_real(asked, Promise::Ratio(0.2));
    Ok(vec![
        row("echo of helve mcp, 32 under way, 10,000 calls", |run| run.whole, promised),
        row("the first 2,000 of them", |run| run.first, promised),
        row("the same, calls 20,000 to 30,000", |run| run.later, promised),
        compared(asked, "echo of helve mcp, one at a time", (one.subject, one.reference), Promise::None),
    ])
}

/// What the client itself takes for a call where many a second are counted, beside the least that a server can do.
fn client_alone(asked: &Asked<'_>) -> Measured<Row> {
    let mut mirror = Talk::open(Server::own(0)?.command())?;
    let (rounds, calls) = if asked.quick { (5, 1000) } else { (15, 10_000) };
    let mut times = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        mirror.stream("echo", calls, UNDER_WAY)?;
        times.push(start.elapsed() / calls);
    }
    let name = "the client alone, 32 calls under way";
    Ok(Row { name: name.into(), subject: median(times), reference: None, promise: Promise::None, mib: None })
}

fn repeat(talk: &mut Talk, tool: &str, calls: u32) -> Measured<()> {
    for _ in 0..calls {
        let result = talk.request("tools/call", &json!({"name": tool, "arguments": {"message": "hello"}}))?;
        check(&result, "hello")?;
    }
    Ok(())
}

fn check(result: &Value, text: &str) -> Measured<()> {
    let said = result["content"][0]["text"].as_str().unwrap_or_default();
    if result["isError"] == true || !said.contains(text) {
        return Err(format!("a call gave {result}").into());
    }
    Ok(())
}

/// Many calls sent before any answer is read.
fn at_once(asked: &Asked<'_>, place: &Place) -> Measured<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, args, tool) in [
        ("100 calls at once, helve mcp", &["mcp"][..], "echo"),
        ("100 calls at once, helve mcp --gateway", &["mcp", "--gateway"][..], "mcp__peer__echo"),
    ] {
        let mut talk = Talk::open(place.helve(args))?;
        talk.wait_for_tool(tool, Duration::from_secs(30))?;
        let mut times = Vec::new();
        for _ in 0..if asked.quick { 3 } else { 11 } {
            let start = Instant::now();
            let mut open = BTreeSet::new();
            for number in 0..AT_ONCE {
                let text = format!("text {number}.");
                open.insert(talk.send("tools/call", &json!({"name": tool, "arguments": {"message": text}}))?);
            }
            let first = open.first().copied().unwrap_or_default();
            while !open.is_empty() {
                let (id, result) = talk.answer()?;
                if !open.remove(&id) {
                    return Err(
                        format!("an answer to {id}, which was not asked or was answered already").into()
                    );
                }
                check(&result, &format!("text {}.", id - first))?;
            }
            times.push(start.elapsed());
        }
        rows.push(Row {
            name: name.into(),
            subject: median(times),
            reference: None,
            promise: Promise::None,
            mib: None,
        });
    }
    Ok(rows)
}

/// A thousand tools, listed by pages, beside writing the same bytes.
fn list(asked: &Asked<'_>) -> Measured<Row> {
    let server = Server::own(MANY)?;
    let place = Place::new(asked.helve, &server.configuration())?;
    let mut talk = Talk::open(place.helve(&["mcp", "--gateway"]))?;
    talk.wait_for_tool(&format!("mcp__peer__tool_{}", MANY - 1), Duration::from_secs(60))?;
    let pages = talk.pages()?;
    let count: usize = pages.iter().map(|page| page["tools"].as_array().map_or(0, Vec::len)).sum();
    if count < MANY {
        return Err(format!("{count} tools were listed, not {MANY}").into());
    }
    let pair = in_turns(
        if asked.quick { 5 } else { 31 },
        1,
        || talk.skim_pages(),
        || -> Measured<()> {
            for page in &pages {
                std::hint::black_box(serde_json::to_vec(page)?);
            }
            Ok(())
        },
    )?;
    Ok(Row {
        name: "1,000 tools listed by helve mcp --gateway".into(),
        subject: pair.subject,
        reference: Some(("serde_json writing the same", pair.reference)),
        promise: Promise::Ratio(10.0),
        mib: None,
    })
}
