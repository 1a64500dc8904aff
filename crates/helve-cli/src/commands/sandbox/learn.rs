//! `helve sandbox --learn`: what a command needs besides the usual view.
//!
//! ```text
//! run over a layer, watched closely ── ended well? ── yes ── take out what it does not need ── profile
//!            ^                            no
//!            └── grant what was refused ──┘      (`needs` says what, and what is never granted)
//! ```
//!
//! Every run changes nothing: its layer is dropped, other places cannot be written, and there is no network unless the owner
//! opened it. So what a command would write outside the workspace is proposed untried.

mod needs;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use helve::harmless::harmless;
use helve::sandbox::{
    self, Ended, Exit, Explain, Explained, ProcessLimits, SandboxChoice, ShellJob, View, ViewGrant, Work,
};
use helve::{Cancel, OutputSink, Policy, Stream, ToolError};
use serde_json::{Value, json};

use super::asked::{self, Asked};
use super::{Net, Options, refused, report};
use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::{interrupt, ui};
use needs::Needs;

/// How often the command runs to find out what it needs.
const ROUNDS: usize = 8;
/// How often it runs to find out what it does not need.
const TRIES: usize = 12;
/// So much of the end of its output is kept.
const TAIL_BYTES: usize = 4 << 10;

pub(super) fn learn(global: &Global, options: &Options) -> Result<u8, Failure> {
    let asked = asked::asked(global, options, false).map_err(told)?;
    let words = options.command.iter().map(|word| word.clone().into_string());
    let words: Vec<String> = words
        .collect::<Result<_, _>>()
        .map_err(|word| Failure::usage(format!("{} is not UTF-8, which --learn needs", word.display())))?;
    if let Some(path) = options.write.as_ref().filter(|path| path.exists()) {
        return Err(Failure::usage(format!(
            "the profile cannot be written to {}: it is there",
            path.display()
        )));
    }
    if let Some(path) = options.write.as_ref().filter(|path| lies_in(path, &asked.view.workspace)) {
        return Err(Failure::usage(format!(
            "the profile cannot be written to {}: commands could change it in the workspace, where --config takes no file. Name a \
             place outside of {}",
            path.display(),
            asked.view.workspace.display()
        )));
    }
    let (canceller, cancel) = Cancel::pair();
    interrupt::catch()?.listen(canceller);
    let runs = Runs {
        timeout: options.time.unwrap_or(Duration::from_secs(asked.policy.limits().exec_timeout_max)),
        asked,
        words,
        cancel,
    };
    let learned = runs.learn().map_err(told)?;
    let profile = Profile::new(&runs, options, &learned);
    if let Some(path) = &options.write {
        let written =
            std::fs::File::create_new(path).and_then(|mut file| file.write_all(profile.toml.as_bytes()));
        written.map_err(|error| {
            Failure::usage(format!("the profile cannot be written to {}: {error}", path.display()))
        })?;
    }
    if global.json {
        ui::print_json(&profile.json(&learned))?;
    } else {
        profile.show(&learned)?;
    }
    Ok(report::exit_code(learned.ended.exit, None))
}

/// Whether a file that is to be made would lie in a directory, whose real path is given.
fn lies_in(path: &Path, directory: &Path) -> bool {
    let above = std::path::absolute(path).ok().and_then(|path| path.parent()?.canonicalize().ok());
    above.is_some_and(|above| above.starts_with(directory))
}

fn told(error: ToolError) -> Failure {
    let hint = error.hint.map(|hint| format!("\n{hint}")).unwrap_or_default();
    Failure::usage(format!("{}{hint}", error.message))
}

/// What every run has in common.
struct Runs {
    asked: Asked,
    words: Vec<String>,
    timeout: Duration,
    cancel: Cancel,
}

/// What came out.
struct Learned {
    needs: Needs,
    /// How the command ended with it.
    ended: Ended,
    tail: String,
    runs: usize,
    /// Whether it ran without each thing that it was granted.
    is_smallest: bool,
}

impl Runs {
    fn learn(&self) -> Result<Learned, ToolError> {
        let policy = &self.asked.policy;
        let mut needs = Needs::new(&self.asked.view);
        let (mut ended, mut tail, mut runs) = (None, String::new(), 0);
        while runs < ROUNDS {
            let (end, said) = self.once(needs.grants())?;
            runs += 1;
            needs.forget_left();
            let refused = policy.refused(&end, Some(self.timeout), &self.view(needs.grants()));
            let more = needs.take(&refused);
            ui::note(&format!("run {runs}: {}, {} refused", how(end.exit), refused.len()));
            // What a program only asks about, and does not open, is not seen.
            let more = more || end.exit != Exit::Code(0) && needs.widen();
            let done = end.exit == Exit::Code(0) || end.exit == Exit::Cancelled || !more;
            (ended, tail) = (Some(end), said);
            if done {
                break;
            }
        }
        let Some(ended) = ended else { return Err(ToolError::internal("The command did not run.")) };
        if ended.exit != Exit::Code(0) {
            needs.narrow();
        }
        let mut learned = Learned { needs, ended, tail, runs, is_smallest: false };
        if learned.ended.exit == Exit::Code(0) {
            // What was refused in the run that ended well is not needed.
            learned.needs.keep_tried();
            self.make_small(&mut learned)?;
        }
        Ok(learned)
    }

    /// Takes out what the command ends well without.
    fn make_small(&self, learned: &mut Learned) -> Result<(), ToolError> {
        let all = learned.needs.grants().to_vec();
        for grant in all.iter().take(TRIES) {
            let without: Vec<ViewGrant> =
                learned.needs.grants().iter().filter(|known| *known != grant).cloned().collect();
            let (end, _) = self.once(&without)?;
            learned.runs += 1;
            let needed = end.exit != Exit::Code(0);
            let flag = refused::flags(&self.asked.policy, std::slice::from_ref(grant)).join(" ");
            ui::note(&format!("run {}: {} without {}", learned.runs, how(end.exit), harmless(&flag)));
            if end.exit == Exit::Cancelled {
                return Ok(());
            }
            if !needed {
                learned.needs.drop_grant(grant);
            }
        }
        learned.is_smallest = all.len() <= TRIES;
        Ok(())
    }

    /// What the command sees with these grants.
    fn view(&self, grants: &[ViewGrant]) -> View {
        let mut view = self.asked.view.clone();
        view.explain = Explain::Full;
        for grant in grants {
            match grant {
                ViewGrant::ReadOnly(path) => view.read_only.push(path.clone()),
                ViewGrant::ReadWrite(path) => view.read_write.push(path.clone()),
                ViewGrant::SystemCalls(group) => view.system_calls.push(*group),
                _ => {}
            }
        }
        view
    }

    /// One run: how it ended, and the end of what it said.
    fn once(&self, grants: &[ViewGrant]) -> Result<(Ended, String), ToolError> {
        let (view, limits): (View, ProcessLimits) = (self.view(grants), self.asked.limits);
        let backend = match &self.asked.choice {
            SandboxChoice::Auto => sandbox::ladder(view, limits, Some(self.asked.state.clone()))?,
            choice => sandbox::backend(choice, view, limits)?,
        };
        let job = ShellJob {
            work: Work::Program(self.words.clone()),
            stdin: Vec::new(),
            working_dir: self.asked.start.clone(),
            timeout: self.timeout,
        };
        let tail = Tail::default();
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(super::broken("the event loop cannot start"))?;
        let sink = Box::new(tail.clone());
        let run = backend.run_layered(job, self.asked.layer_bytes, sink, self.cancel.clone());
        let (ended, layer) = tokio.block_on(run)?;
        drop(layer);
        Ok((ended, tail.text()))
    }
}

fn how(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::TimedOut => "out of time".to_owned(),
        Exit::Cancelled => "taken back".to_owned(),
    }
}

/// The end of both streams.
#[derive(Clone, Default)]
struct Tail(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl OutputSink for Tail {
    fn chunk(&mut self, _stream: Stream, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        let beyond = kept.len().saturating_sub(TAIL_BYTES);
        kept.drain(..beyond);
    }
}

impl Tail {
    fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

/// What is proposed.
struct Profile {
    toml: String,
    lines: Vec<String>,
    flags: Vec<String>,
    words: Vec<String>,
    untried: Vec<String>,
    left: Vec<(Explained, String)>,
}

impl Profile {
    fn new(runs: &Runs, options: &Options, learned: &Learned) -> Profile {
        let policy: &Policy = &runs.asked.policy;
        let absolute = |path: &std::path::PathBuf| std::path::absolute(path).ok();
        let given = options.read_only.iter().filter_map(absolute).map(ViewGrant::ReadOnly);
        let given = given.chain(options.read_write.iter().filter_map(absolute).map(ViewGrant::ReadWrite));
        let given = given.chain(matches!(options.net, Net::Host).then_some(ViewGrant::Network));
        let all: Vec<ViewGrant> = given.chain(learned.needs.grants().iter().cloned()).collect();
        let lines = policy.lines(&all);
        let ended = how(learned.ended.exit);
        let command = one_line(&quoted(&runs.words), 200);
        let mut toml = format!("# What this needs in the sandbox, besides the usual view: {command}\n");
        let _ = writeln!(toml, "# Found in {} runs, the last with it: {ended}.", learned.runs);
        match lines.is_empty() {
            true => toml.push_str("# Nothing.\n"),
            false => toml.extend(lines.iter().flat_map(|line| [line.as_str(), "\n"])),
        }
        let untried = learned.needs.grants().iter().filter_map(|grant| match grant {
            ViewGrant::ReadWrite(path) => Some(path.display().to_string()),
            _ => None,
        });
        let left = learned.needs.left().iter();
        Profile {
            toml,
            flags: refused::flags(policy, &all),
            lines,
            words: runs.words.clone(),
            untried: untried.collect(),
            left: left.map(|(refused, why)| (policy.in_words(refused), why.clone())).collect(),
        }
    }

    fn command(&self) -> String {
        let flags: String = self.flags.iter().map(|flag| format!("{flag} ")).collect();
        format!("helve sandbox {flags}-- {}", quoted(&self.words))
    }

    fn json(&self, learned: &Learned) -> Value {
        let left = self.left.iter().map(|(one, why)| {
            json!({"act": one.act, "subject": one.subject, "rule": one.rule, "why": why, "times": one.times})
        });
        json!({
            "command": self.words,
            "ended": how(learned.ended.exit),
            "ended_well": learned.ended.exit == Exit::Code(0),
            "runs": learned.runs,
            "is_smallest": learned.is_smallest,
            "toml": self.toml,
            "grants": self.lines,
            "sandbox": self.command(),
            "untried": self.untried,
            "not_proposed": left.collect::<Vec<_>>(),
        })
    }

    fn show(&self, learned: &Learned) -> Result<(), Failure> {
        let mut text = harmless(&self.toml);
        let _ = writeln!(
            text,
            "\n{}\n{}",
            ui::styled(ui::FAINT, "# The same as options:"),
            harmless(&self.command())
        );
        for path in &self.untried {
            let _ = writeln!(
                text,
                "# Not tried, because nothing outside the workspace was changed: {}",
                harmless(path)
            );
        }
        if !self.left.is_empty() {
            let _ = writeln!(text, "\n{}", ui::styled(ui::STRONG, "# Refused, and not proposed:"));
            for (one, why) in &self.left {
                let _ = writeln!(
                    text,
                    "#   {} ({}): {}",
                    one_line(&one.what(), 300),
                    one_line(&one.rule, 200),
                    harmless(why)
                );
            }
        }
        ui::print_styled(&text)?;
        match learned.ended.exit {
            Exit::Code(0) if !learned.is_smallest => ui::note("the command may need less than this"),
            Exit::Code(0) => {}
            exit => {
                let tail = learned.tail.lines().rev().take(20).collect::<Vec<_>>();
                let tail: String = tail.iter().rev().map(|line| format!("  {}\n", harmless(line))).collect();
                ui::tell(&tail);
                ui::note(&format!("the command does not end well in the sandbox with this: {}", how(exit)));
            }
        }
        Ok(())
    }
}

fn quoted(words: &[String]) -> String {
    words.iter().map(|word| helve::quote(word)).collect::<Vec<_>>().join(" ")
}
