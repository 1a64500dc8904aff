//! `exec`: runs a shell command through the shell lane and writes its result in one fixed form.
//!
//! The form is: standard output; then, if standard error is not blank, `STDERR:` and standard error; then, if the
//! command failed, an empty line and `Exit code: N` (a signal counts as a negative number); then, if processes were left
//! in the background, an empty line and how many were ended; then, if files were taken away from protected places of the
//! workspace, an empty line and a line for each; then, if the sandbox refused something that was seen, an empty line and a line
//! for each; then, if it ran over a layer and its changes wait, what they are. A command that ran out of time, was taken back or
//! was ended at a bound starts with an `Error:` line. The text keeps its head and its tail under the limit `output_chars`.
//!
//! A command that fails, runs out of time, passes a bound or is taken back is a failed call that carries this text as
//! its output.
//!
//! Deliberately not here: whether the command may run, how long it may be, how it is confined, and its deadline. The
//! guard sees the command through `access`, and the shell lane ends the whole process tree in time; so the spec has no
//! timeout of its own, which could only cut a command short that still has time.

mod bound;
mod layer;
mod refused;

use std::time::Duration;

use helve_core::text::{compose, omission};
use helve_core::typed::schema_of;
use helve_core::{
    Access, ApprovalNeed, Capture, CommandUse, Context, Ended, ErrorKind, Exit, Explained, Lane, Limits,
    Output, ShellOutput, ShellRequest, TakenOut, ToolError, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::paths::shown;
use layer::LayerFacts;

/// How many files that were taken out are named in the text; the details name all.
const TAKEN_LINES: usize = 10;

/// What the owner set for commands. It shows in the schema of `exec`, so that a model knows it and normalize can fill
/// in and clamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellDefaults {
    /// Seconds, when the call does not say.
    pub timeout: u64,
    /// Seconds at the most.
    pub timeout_max: u64,
    /// Where a command starts when the call does not say; the workspace if absent.
    pub working_dir: Option<String>,
}

impl From<&Limits> for ShellDefaults {
    fn from(limits: &Limits) -> Self {
        ShellDefaults {
            timeout: limits.exec_timeout_default,
            timeout_max: limits.exec_timeout_max,
            working_dir: None,
        }
    }
}

pub use layer::{LayerChanged, changed};

pub(crate) struct Exec {
    timeout_default: u64,
    timeout_max: u64,
    working_dir: Option<String>,
}

impl Exec {
    pub(crate) fn new(defaults: &ShellDefaults) -> Self {
        let timeout_max = defaults.timeout_max.max(1);
        let timeout_default = defaults.timeout.clamp(1, timeout_max);
        Exec { timeout_default, timeout_max, working_dir: defaults.working_dir.clone() }
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The shell command to execute.
    #[schemars(length(min = 1), extend("x-aliases" = ["cmd"]))]
    command: String,
    /// Where the command starts; the workspace if absent.
    #[schemars(extend("x-aliases" = ["workdir", "cwd"]))]
    working_dir: Option<String>,
    /// After how many seconds the command and everything that it started is ended.
    #[schemars(range(min = 1), extend("x-aliases" = ["timeout_secs", "timeoutSeconds"], "x-clamp" = true))]
    timeout: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Facts {
    /// The exit code; minus the signal's number if a signal ended the command; absent if Helve ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// The number of the signal that ended the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    /// Bytes of standard output.
    stdout_bytes: u64,
    /// Bytes of standard error.
    stderr_bytes: u64,
    /// Whether the deadline ended the command.
    timed_out: bool,
    /// The bound that the command passed: the name of a limit, or `system_call`.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'static str>,
    /// How many processes the command had left running, which were ended with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_running: Option<u64>,
    /// Files that the command left at protected places of the workspace, and that were taken away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    taken_out: Vec<TakenFile>,
    /// What was refused to the command, as far as it was seen: a hint, which the command itself may have shaped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    denied: Vec<Explained>,
    /// How many more such refusals there were.
    #[serde(skip_serializing_if = "Option::is_none")]
    denied_more: Option<usize>,
    /// What the command changed in the workspace, where it ran over a layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<LayerFacts>,
}

#[derive(Serialize, JsonSchema)]
struct TakenFile {
    /// Its path relative to the workspace.
    path: String,
    /// Why it may not stay there.
    why: String,
    /// The blob that keeps what it held.
    #[serde(skip_serializing_if = "Option::is_none")]
    blob: Option<String>,
}

impl TypedTool for Exec {
    type Args = Args;

    fn declare(&self, mut parameters: Value) -> ToolSpec {
        if let Some(timeout) = parameters.pointer_mut("/properties/timeout").and_then(Value::as_object_mut) {
            timeout.insert("maximum".into(), self.timeout_max.into());
            timeout.insert("default".into(), self.timeout_default.into());
        }
        let working_dir = parameters.pointer_mut("/properties/working_dir").and_then(Value::as_object_mut);
        if let (Some(property), Some(dir)) = (working_dir, &self.working_dir) {
            property.insert("default".into(), dir.as_str().into());
        }
        ToolSpec::new(
            "exec",
            "Executes a shell command and returns its output: stdout, then stderr under STDERR:, then the exit code if \
             it is not 0. Standard input is closed, so commands must not ask questions. Nothing keeps running \
             after the call. Long output is cut in the middle; read_output shows the rest. \
             Prefer a more specific tool where there is one.",
            parameters,
        )
        .title("Run a command")
        .aliases(&["shell", "bash"])
        .lane(Lane::Sandbox)
        .exclusive()
        .approval(ApprovalNeed::UnlessAutoApproved)
        .output_schema(schema_of::<Facts>())
    }

    fn access(&self, args: &Args) -> Access {
        let command = CommandUse { command: args.command.clone(), working_dir: args.working_dir.clone() };
        Access { commands: vec![command], ..Access::default() }
    }

    async fn run(&self, args: Args, ctx: &Context) -> Result<Output, ToolError> {
        let seconds = args.timeout.unwrap_or(self.timeout_default).clamp(1, self.timeout_max);
        let request = ShellRequest {
            command: args.command,
            working_dir: args.working_dir,
            timeout: Duration::from_secs(seconds),
        };
        let ran = ctx.shell()?.run(request).await?;
        report(&ran, seconds, ctx)
    }
}

fn report(ran: &ShellOutput, seconds: u64, ctx: &Context) -> Result<Output, ToolError> {
    let (code, signal) = match ran.ended.exit {
        Exit::Code(code) => (Some(code), None),
        Exit::Signal(signal) => (Some(-signal), Some(signal)),
        Exit::TimedOut | Exit::Cancelled => (None, None),
    };
    let failure = failure(&ran.ended, seconds);
    let ended_by_helve = ran.ended.limit.is_some() || code.is_none();
    let first_line =
        failure.as_ref().filter(|_| ended_by_helve).map(|(_, message)| format!("Error: {message}"));
    let facts = Facts {
        exit_code: code,
        signal,
        stdout_bytes: ran.stdout.bytes(),
        stderr_bytes: ran.stderr.bytes(),
        timed_out: ran.ended.exit == Exit::TimedOut,
        limit: ran.ended.limit.map(bound::name),
        left_running: Some(ran.ended.left_running).filter(|count| *count > 0),
        taken_out: ran.taken_out.iter().map(taken_file).collect(),
        denied: ran.refused.iter().take(refused::MOST).cloned().collect(),
        denied_more: ran.refused.len().checked_sub(refused::MOST).filter(|more| *more > 0),
        layer: ran.layer.as_ref().map(LayerFacts::of),
    };
    let mut pieces = pieces(ran, first_line, code);
    if let Some(text) = refused::text(&ran.refused, ctx.call()) {
        new_line(&mut pieces);
        pieces.push(Capture::whole(&text));
    }
    if let Some(text) = ran.layer.as_ref().and_then(|report| layer::text(report, ctx.call())) {
        new_line(&mut pieces);
        pieces.push(Capture::whole(&text));
    }
    let output = written(&pieces, ran, ctx).with_details(crate::details(&facts));
    match failure {
        None => Ok(output),
        Some((kind, message)) => Err(ToolError::new(kind, message).with_output(output)),
    }
}

/// Why the call failed, if it did.
fn failure(ended: &Ended, seconds: u64) -> Option<(ErrorKind, String)> {
    let failed = |message| Some((ErrorKind::ToolFailed, message));
    match (ended.exit, ended.limit) {
        // The command had an answer to whatever happened to one of its processes.
        (Exit::Code(0), _) => None,
        (Exit::Code(code), None) => failed(format!("Command exited with code {code}")),
        (Exit::Code(code), Some(limit)) => {
            failed(format!("Command exited with code {code}: {}.", bound::sentence(limit)))
        }
        (Exit::Signal(signal), None) => failed(format!("Command was ended by signal {signal}")),
        (Exit::Signal(_), Some(limit)) => failed(format!("Command ended: {}.", bound::sentence(limit))),
        (Exit::TimedOut, _) => {
            Some((ErrorKind::Timeout, format!("Command timed out after {seconds} seconds")))
        }
        (Exit::Cancelled, _) => Some((ErrorKind::Cancelled, "Command was cancelled".to_owned())),
    }
}

/// The text before it is cut to size.
fn pieces(ran: &ShellOutput, first_line: Option<String>, code: Option<i32>) -> Vec<Capture> {
    let mut pieces: Vec<Capture> = first_line.iter().map(|line| Capture::whole(line)).collect();
    if !ran.stdout.is_empty() {
        new_line(&mut pieces);
        pieces.push(ran.stdout.clone());
    }
    if !is_blank(&ran.stderr) {
        new_line(&mut pieces);
        pieces.push(Capture::whole("STDERR:\n"));
        pieces.push(ran.stderr.clone());
    }
    if let Some(code) = code.filter(|code| *code != 0) {
        if !pieces.is_empty() {
            new_line(&mut pieces);
            pieces.push(Capture::whole("\n"));
        }
        pieces.push(Capture::whole(&format!("Exit code: {code}")));
    }
    if pieces.is_empty() {
        pieces.push(Capture::whole("(no output)"));
    }
    // What Helve ended as a whole had nothing in the background.
    if let Some(line) = left_running(&ran.ended).filter(|_| code.is_some()) {
        new_line(&mut pieces);
        pieces.push(Capture::whole(&format!("\n{line}")));
    }
    if !ran.taken_out.is_empty() {
        new_line(&mut pieces);
        pieces.push(Capture::whole(&taken_out(&ran.taken_out)));
    }
    pieces
}

fn taken_file(file: &TakenOut) -> TakenFile {
    let TakenOut { path, why, blob } = file;
    TakenFile { path: path.clone(), why: why.clone(), blob: blob.as_ref().map(|blob| blob.id.clone()) }
}

/// One line for each file that was taken out, up to a bound.
fn taken_out(files: &[TakenOut]) -> String {
    let mut text = String::new();
    for TakenOut { path, why, blob } in files.iter().take(TAKEN_LINES) {
        let kept = blob.as_ref().map(|blob| format!("; kept as {}", blob.id)).unwrap_or_default();
        // The command chose the name, and perhaps one that the reason holds.
        let (path, why) = (shown(path), why.replace(['\n', '\r'], " "));
        // What could not be taken out says so itself.
        let line = if why.starts_with("NOT ") {
            format!("\nProtected path {path}: {why}{kept}")
        } else {
            format!("\nProtected file taken out: {path} ({why}){kept}")
        };
        text.push_str(&line);
    }
    if let Some(more) = files.len().checked_sub(TAKEN_LINES).filter(|more| *more > 0) {
        text.push_str(&format!("\n{more} more protected files were taken out."));
    }
    text
}

fn left_running(ended: &Ended) -> Option<String> {
    match (ended.limit, ended.left_running) {
        (Some(_), _) | (None, 0) => None,
        (None, 1) => Some("1 background process was ended with the command.".to_owned()),
        (None, count) => Some(format!("{count} background processes were ended with the command.")),
    }
}

/// Ends the last line, so that the next piece starts on a line of its own.
fn new_line(pieces: &mut Vec<Capture>) {
    if pieces.last().is_some_and(|last| !last.ends_with_newline()) {
        pieces.push(Capture::whole("\n"));
    }
}

fn is_blank(capture: &Capture) -> bool {
    capture.text().is_some_and(|text| text.trim().is_empty())
}

/// The text under its budget, with a mark that says what is left out and how to see it.
fn written(pieces: &[Capture], ran: &ShellOutput, ctx: &Context) -> Output {
    let budget = usize::try_from(ctx.limits().output_chars).unwrap_or(usize::MAX);
    let call = ran.blob.as_ref().map(|_| ctx.call());
    let composed = compose(pieces, budget, |chars| omission(chars, call));
    let mut output = Output::text(composed.text);
    if composed.omitted_chars > 0 {
        output.truncated = Some(helve_core::Truncated {
            bytes: composed.omitted_bytes,
            chars: composed.omitted_chars,
            blob: ran.blob.as_ref().map(|blob| blob.id.clone()),
            blob_dropped: ran.blob.as_ref().map_or(0, |blob| blob.dropped),
        });
    }
    output
}

#[cfg(test)]
mod tests;
