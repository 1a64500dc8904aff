//! `helve sandbox`: the owner's own command in a sandbox. No tool call: no guard reads it, no journal records it.
//!
//! | module | what it does |
//! |---|---|
//! | `amounts` | bytes and lengths of time as people write them |
//! | `asked` | from the options to the view and the limits |
//! | `dry_run` | what a command would change, shown and held |
//! | `refused` | what was refused to it, in the words of the command line |
//! | `learn` | what a command needs besides the usual view |
//! | `terminal` | a terminal of the command's own |
//! | `report` | exit code, notes and the report for programs |
//!
//! The command gets the caller's own streams: nothing is buffered, changed or read on the way, except on a terminal.

mod amounts;
mod asked;
mod dry_run;
mod learn;
mod refused;
mod report;
mod terminal;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use clap::{Args as ClapArgs, ValueEnum};
use helve::sandbox::{self, Attach, Ended, Explained, SandboxChoice};
use helve::{Cancel, CancelHandle, ErrorKind, Exit, ToolError};
use rustix::fs::{Mode, OFlags};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::mpsc::{self, UnboundedSender};

use crate::args::Global;
use crate::failure::Failure;
use crate::{interrupt, ui};
use asked::Asked;
use dry_run::Held;
use refused::Said;
use terminal::{Screens, Terminal};

pub(crate) use report::FAILED;

/// Run a command of your own in the sandbox
#[derive(ClapArgs)]
#[command(long_about = "\
Run a command of your own in the sandbox, as a program and its arguments. It is not a tool call: no guard reads it and no \
journal records it.

The command sees the system's directories and your toolchains read-only, the workspace read-write, and a private, empty \
/tmp and HOME; nothing else of your files, no other processes and no network. It starts in the current directory if that is \
in the workspace. Its environment holds PATH, HOME, the locale and little more. The files that configure Helve are not read; \
--config and --set hold.

Standard input, output and error are your own, so it works in pipes and scripts. On a terminal the command gets a terminal \
of its own, with job control and the size of yours. A signal that would end Helve goes to the command first; a second one ends \
it. When the command ends or Helve is killed, everything that the command started ends too.

With --dry-run the command runs over a layer that takes every change of the workspace; other places are not writable. What it \
would change is shown with diffs on standard error, or in the report, and waits under an id: `helve commit ID` makes all of it \
happen, unless one of the files was changed since, `helve discard ID` drops it.

With --learn the command runs several times over layers that are dropped, each time with what was refused to it before, until it \
ends with code 0 or nothing more can be granted; then what it turns out not to need is taken out again. The profile goes to \
standard output: lines for helve.toml, which `helve sandbox --config FILE` takes too, and the same as options. Secrets, sockets and \
the network are never granted, only named. The command reads nothing from standard input, and its output is shown only where it \
fails in the end. Needs the sandbox native.

On a terminal, what was refused to the command is told on standard error when it has ended, with the options that would allow it; \
--set tools.exec.explain=full also tells each file.

Memory and processes are always bounded; time, processor time and disk where you ask for it.

Exit code: that of the command; 128+N if signal N ended it; 124 if it ran longer than --time; 125 if Helve could not do what was \
asked; 126 if the program cannot be executed; 127 if there is none.")]
#[command(override_usage = "helve sandbox [OPTIONS] [--] COMMAND [ARGS]...")]
#[command(after_help = "\
With --json a report is written when the command has ended, as one line of JSON on standard error or in the file of --report: \
how it ended, its exit code and signal, the limit that it hit, what was refused to it, the layers of the sandbox, and how long it took.

Examples:
  helve sandbox -- ls -la
  helve sandbox --ro . --mem 512M --time 1m -- grep -rn 'two words' .
  cat words.txt | helve sandbox -- sort -r | head -1
  helve sandbox --hide src --env EDITOR --env CI=1 -- sh -c 'ls src; echo $CI'
  helve sandbox --dry-run -- sed -i s/old/new/ notes.md
  helve sandbox --learn -- cat notes.md
  helve sandbox --report report.json --pids 64 -- true
  helve sandbox -- bash")]
pub(crate) struct Options {
    /// Show a file or directory, not writable; the stricter rule wins, so `--ro .` keeps the workspace as it is
    #[arg(long = "ro", value_name = "PATH")]
    read_only: Vec<PathBuf>,
    /// Show a file or directory, writable
    #[arg(long = "rw", value_name = "PATH")]
    read_write: Vec<PathBuf>,
    /// Hide a file or directory that would be seen
    #[arg(long, value_name = "PATH")]
    hide: Vec<PathBuf>,
    /// Set an environment variable, or pass the one of this name on
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// What the command can reach
    #[arg(long, value_enum, default_value = "none", value_name = "NET")]
    net: Net,
    /// End it if its processes take more memory together, such as 512M or 2G [default: 4G]
    #[arg(long, value_name = "SIZE", value_parser = amounts::bytes)]
    mem: Option<u64>,
    /// End it if it has more processes and threads at a time [default: 1024]
    #[arg(long, value_name = "COUNT", value_parser = amounts::count)]
    pids: Option<u64>,
    /// End it if its processes take more seconds of processor time together
    #[arg(long, value_name = "SECONDS", value_parser = amounts::count)]
    cpu: Option<u64>,
    /// End it after this time, such as 90, 1.5s, 10m or 2h
    #[arg(long, value_name = "DURATION", value_parser = amounts::duration)]
    time: Option<Duration>,
    /// End it if the free space of the disk falls by more, such as 1G
    #[arg(long, value_name = "SIZE", value_parser = amounts::bytes)]
    disk: Option<u64>,
    /// Change nothing in the workspace: show what the command would change, for `helve commit` or `helve discard`
    #[arg(long)]
    dry_run: bool,
    /// Find out what the command needs: run it again and again, changing nothing, and print the smallest profile
    #[arg(long, conflicts_with_all = ["dry_run", "report"])]
    learn: bool,
    /// Write the profile that --learn finds into this file outside the workspace, which must not be there
    #[arg(long, value_name = "FILE", requires = "learn")]
    write: Option<PathBuf>,
    /// Which sandbox
    #[arg(long, value_enum, default_value = "auto", value_name = "NAME")]
    backend: Backend,
    /// Write the report of --json into this file, which may be /dev/fd/3
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Net {
    /// Nothing
    None,
    /// What this machine can reach
    Host,
}

#[derive(Clone, Copy, ValueEnum)]
enum Backend {
    /// The strongest of native and landlock that this machine has
    Auto,
    /// Namespaces, Landlock and a filter for system calls
    Native,
    /// Landlock and a filter for system calls, where namespaces are refused
    Landlock,
    /// The installed bubblewrap
    Bwrap,
}

pub(crate) fn sandbox(global: &Global, options: Options) -> Result<u8, Failure> {
    let began = Instant::now();
    let failed = |failure: Failure| failure.with_code(FAILED);
    if options.learn {
        return learn::learn(global, &options).map_err(failed);
    }
    let place = match place(global, &options) {
        Ok(place) => place,
        Err(failure) if global.json => {
            ui::tell(&bad_usage(&failure.message(), None));
            return Ok(FAILED);
        }
        Err(failure) => return Err(failed(failure)),
    };
    let time = options.time;
    let dry_run = options.dry_run;
    let caught = Arc::new(AtomicI32::new(0));
    let ended = run(global, options, &caught);
    let caught = Some(caught.load(Ordering::SeqCst)).filter(|signal| *signal != 0);
    let took = began.elapsed();
    let (code, line) = match &ended {
        Ok(Ran { ended, held, denied }) => {
            let code = match held {
                Err(_) => FAILED,
                Ok(_) => report::exit_code(ended.exit, caught),
            };
            if let Some(note) = report::note(ended, time) {
                ui::note(&note);
            }
            // A report on standard error says it.
            if !matches!(place, Place::StandardError) {
                crate::refused::tell(denied, 0);
                match held {
                    Ok(None) => {}
                    Ok(Some(held)) => held.show()?,
                    Err(error) => tell(error),
                }
            }
            let mut line = report::ended(ended, denied, code, took);
            if let (Some(members), true) = (line.as_object_mut(), dry_run) {
                let facts = held.as_ref().ok().and_then(Option::as_ref).map_or(Value::Null, Held::facts);
                members.insert("dry_run".to_owned(), facts);
                if let Err(error) = held {
                    members.insert("error".to_owned(), report::error(error));
                }
            }
            (code, line)
        }
        Err(error) => {
            let code = report::failure_code(error.kind);
            if !matches!(place, Place::StandardError) {
                tell(error);
            }
            (code, report::not_started(error, code, took))
        }
    };
    place.write(&line).map_err(failed)?;
    if let (Ok(Ran { ended, .. }), Some(signal)) = (&ended, caught)
        && (ended.exit == Exit::Cancelled || ended.exit == Exit::Signal(signal))
    {
        // Whoever waits for Helve sees what it would see of the command: a script ends at Ctrl-C.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    Ok(code)
}

/// The report on a command line that could not be read.
pub(crate) fn bad_usage(message: &str, hint: Option<String>) -> String {
    let error = ToolError { hint, ..ToolError::new(ErrorKind::InvalidParams, message) };
    format!("{}\n", report::not_started(&error, FAILED, Duration::ZERO))
}

fn tell(error: &ToolError) {
    let hint = error.hint.as_ref().map(|hint| format!("\n{hint}")).unwrap_or_default();
    ui::error(&format!("{}{hint}", error.message));
}

/// A command that ran.
struct Ran {
    ended: Ended,
    /// What it would change, or why that cannot be kept; none where it changed it.
    held: Result<Option<Held>, ToolError>,
    denied: Vec<Explained>,
}

/// Where the report goes.
enum Place {
    Nowhere,
    StandardError,
    File(File),
}

/// Opened before anything runs, so that a report that cannot be written is seen in time.
fn place(global: &Global, options: &Options) -> Result<Place, Failure> {
    let Some(path) = &options.report else {
        return Ok(if global.json { Place::StandardError } else { Place::Nowhere });
    };
    let opened = File::create(path).map_err(|error| {
        let path = path.display();
        Failure::usage(format!(
            "the report cannot be written to {path}: {error}. Name another file with --report"
        ))
    });
    opened.map(Place::File)
}

impl Place {
    fn write(self, line: &Value) -> Result<(), Failure> {
        let text = format!("{line}\n");
        match self {
            Place::Nowhere => Ok(()),
            Place::StandardError => io::stderr().write_all(text.as_bytes()),
            Place::File(mut file) => file.write_all(text.as_bytes()),
        }
        .map_err(|error| Failure::internal(format!("the report cannot be written: {error}")))
    }
}

fn run(global: &Global, options: Options, caught: &Arc<AtomicI32>) -> Result<Ran, ToolError> {
    let on_terminal = terminal::is_wanted();
    let Asked { choice, view, limits, state, start, layer_bytes, policy } =
        asked::asked(global, &options, on_terminal)?;
    let workspace = view.workspace.clone();
    let hide = options.hide.iter().filter_map(|path| std::path::absolute(path).ok()).collect();
    let read_only = options.read_only.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let said = Said { policy, view: view.clone(), hide, read_only, time: options.time };
    let backend = match choice {
        SandboxChoice::Auto => sandbox::ladder(view, limits, Some(state.clone()))?,
        choice => sandbox::backend(&choice, view, limits)?,
    };
    let holder = options.dry_run.then(|| dry_run::holder(&state)).transpose()?;
    let (canceller, cancel) = Cancel::pair();
    let (sender, signals) = mpsc::unbounded_channel();
    let catching = catch_signals(sender, canceller.clone(), Arc::clone(caught));
    catching.map_err(broken("signals cannot be caught"))?;
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(broken("the event loop cannot start"))?;
    let no_terminal = broken("no terminal can be made for the command");
    let (terminal, screens, streams) = if on_terminal {
        let opened = Terminal::open(canceller).map_err(no_terminal)?;
        (Some(opened.0), None, opened.1)
    } else {
        let mut streams = own_streams().map_err(broken("the standard streams cannot be handed over"))?;
        let screens = Screens::before(&mut streams).map_err(no_terminal)?;
        (None, Some(screens), streams)
    };
    let attach = Attach {
        words: options.command,
        working_dir: start,
        streams,
        terminal: on_terminal,
        timeout: options.time,
        signals,
    };
    let ended = match options.dry_run {
        false => tokio.block_on(backend.attach(attach, cancel.clone())).map(|ended| (ended, None)),
        true => {
            let ended = tokio.block_on(backend.attach_layered(attach, layer_bytes, cancel.clone()));
            ended.map(|(ended, layer)| (ended, Some(layer)))
        }
    };
    if let Some(terminal) = terminal {
        terminal.close();
    }
    if let Some(screens) = screens {
        screens.close();
    }
    let (ended, layer) = ended?;
    let held = holder
        .zip(layer)
        .map(|(holder, layer)| Held::of(&holder, &workspace, &layer, &ended, &cancel))
        .transpose();
    let denied = said.explained(&ended);
    Ok(Ran { ended, held, denied })
}

fn broken(what: &'static str) -> impl Fn(io::Error) -> ToolError {
    move |error| {
        ToolError::internal(format!("{what}: {error}"))
            .hint("Check the limits on processes, memory and open files of the user who runs Helve.")
    }
}

/// The caller's streams for the command. Helve keeps none but standard error: a pipe ends when the command closes it.
fn own_streams() -> io::Result<[OwnedFd; 3]> {
    let above = |fd: std::os::fd::BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 3);
    let streams = [above(io::stdin().as_fd())?, above(io::stdout().as_fd())?, above(io::stderr().as_fd())?];
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(streams)
}

/// The first signal that would end Helve goes to the command, which may end in its own way; the second ends everything,
/// and the third Helve at once. What whoever started Helve has it ignore stays ignored.
fn catch_signals(
    signals_for_command: UnboundedSender<i32>,
    canceller: CancelHandle,
    caught: Arc<AtomicI32>,
) -> io::Result<()> {
    let wanted =
        [SIGINT, SIGTERM, SIGHUP, SIGQUIT].into_iter().filter(|signal| !interrupt::is_ignored(*signal));
    let mut signals = Signals::new(wanted)?;
    let listen = move || {
        for (count, signal) in signals.forever().enumerate() {
            caught.store(signal, Ordering::SeqCst);
            match count {
                // When the command has ended, what Helve still does is taken back.
                0 if signals_for_command.send(signal).is_ok() => {}
                0 | 1 => canceller.cancel(),
                _ => {
                    terminal::restore();
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(listen).map(drop)
}
