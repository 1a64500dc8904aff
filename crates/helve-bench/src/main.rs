//! Measures Helve beside a reference operation of the same run, so that a noisy machine moves both.
//!
//! `helve-bench [sandbox|files|mcp|agent] [--json] [--quick] [--check] [--peers] [--only TEXT] [--helve PATH] [--rg PATH] [--everything CMD] [--client NAME=CMD]…` prints one row a
//! measurement: what Helve takes, what the reference takes, their ratio and the ratio that is promised. `--check` exits 1
//! when a promise is missed. With the word `sandbox` it measures the sandboxes alone, with `--only` those rows alone whose
//! name has a text in it, and with `--peers` other programs beside them; with `files` the file tools alone, beside ripgrep, which is found in `PATH` or named with `--rg`; with `mcp`
//! MCP over standard streams alone, beside server-everything, whose command is named with `--everything`, and with each client that
//! is named with `--client`; with `agent` the
//! loop around a model alone.
//!
//! | module | measures |
//! |---|---|
//! | `inside` | stages and the whole pipeline, in this process |
//! | `outside` | the `helve` program: start-up, memory, commands, a gigabyte of output |
//! | `agent` | a round of the agent's loop, and its start |
//! | `files` | the file tools beside ripgrep and plain system calls |
//! | `mcp` | calls and lists over MCP beside other servers, and through the gateway |
//! | `sandbox` | the sandboxes and their lanes beside bare spawns and other programs |
//! | `host` | what the host of a virtual machine took meanwhile |
//! | `sample` | interleaved timing and medians |
//! | `report` | the table and the JSON |

mod agent;
mod files;
mod host;
mod inside;
mod mcp;
mod outside;
mod report;
mod sample;
mod sandbox;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use report::Row;

/// What the command line asks for.
struct Options {
    json: bool,
    check: bool,
    /// Fewer rounds.
    quick: bool,
    /// Only the sandboxes.
    sandbox: bool,
    /// Only the file tools.
    files: bool,
    /// Only MCP.
    mcp: bool,
    /// Only the agent.
    agent: bool,
    /// The command of server-everything.
    everything: Option<String>,
    /// Clients of MCP beside our own.
    clients: Vec<(String, Vec<String>)>,
    /// Other programs beside them.
    peers: bool,
    /// Only rows of the sandboxes with this in their name.
    only: Option<String>,
    helve: PathBuf,
    rg: Option<PathBuf>,
}

fn main() -> ExitCode {
    helve::sandbox::run_helper_if_asked();
    if let [word, workspace, state] = &std::env::args().skip(1).collect::<Vec<_>>()[..]
        && word == "files-memory"
    {
        return match files::child(Path::new(workspace), Path::new(state)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                report::complain(&error.to_string());
                ExitCode::FAILURE
            }
        };
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let served = match &words[..] {
        [word, tools] if word == mcp::SERVER => Some(mcp::serve(tools.parse().unwrap_or(1))),
        [word, command @ ..] if word == mcp::RELAY => Some(mcp::relay(command)),
        [word, words @ ..] if word == mcp::CLIENT => Some(mcp::be(words)),
        [word, state, command @ ..] if word == mcp::RECORDER => Some(mcp::recorder(state, command)),
        _ => None,
    };
    match served {
        Some(Ok(())) => return ExitCode::SUCCESS,
        Some(Err(error)) => {
            report::complain(&error.to_string());
            return ExitCode::FAILURE;
        }
        None => {}
    }
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            report::complain(&message);
            return ExitCode::from(2);
        }
    };
    let before = host::Taken::so_far();
    match measure(&options) {
        Ok(rows) => {
            report::print(&rows, options.json);
            if let Some(taken) = before.and_then(host::Taken::since).filter(|_| !options.json) {
                report::remark(&taken);
            }
            let missed = rows.iter().any(|row| !row.holds());
            if options.check && missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            report::complain(&error.to_string());
            ExitCode::from(2)
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        json: false,
        check: false,
        quick: false,
        sandbox: false,
        files: false,
        mcp: false,
        agent: false,
        everything: None,
        clients: Vec::new(),
        peers: false,
        only: None,
        helve: PathBuf::new(),
        rg: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => options.json = true,
            "--check" => options.check = true,
            "sandbox" => options.sandbox = true,
            "files" => options.files = true,
            "mcp" => options.mcp = true,
            "agent" => options.agent = true,
            "--everything" => {
                options.everything = Some(args.next().ok_or("--everything wants the command of the server")?);
            }
            "--client" => options.clients.push(client(args.next())?),
            "--rg" => options.rg = Some(args.next().ok_or("--rg wants the path of the program")?.into()),
            "--peers" => options.peers = true,
            "--only" => options.only = Some(args.next().ok_or("--only wants a part of a row's name")?),
            "--quick" => options.quick = true,
            "--helve" => {
                let path = args.next().ok_or("--helve wants the path of the program")?;
                // It is started in other directories.
                options.helve =
                    std::path::absolute(&path).map_err(|error| format!("--helve {path}: {error}"))?;
            }
            other => {
                return Err(format!(
                    "unknown option {other}\nusage: helve-bench [sandbox|files|mcp|agent] [--json] [--quick] [--check] [--peers] [--only TEXT] [--helve PATH] [--rg PATH] [--everything CMD] [--client NAME=CMD]…"
                ));
            }
        }
    }
    if options.helve.as_os_str().is_empty() {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        options.helve = own.with_file_name("helve");
    }
    if !options.helve.is_file() {
        return Err(format!(
            "{} is not there; build it with `cargo build --release -p helve-cli -p helve-bench` or name it with --helve",
            options.helve.display()
        ));
    }
    Ok(options)
}

/// `NAME=CMD`, its words set apart by spaces.
fn client(named: Option<String>) -> Result<(String, Vec<String>), String> {
    let wanted = "--client wants NAME=CMD, such as 'plain=python3 crates/helve-bench/clients/plain.py'";
    let named = named.ok_or(wanted)?;
    let (name, command) = named.split_once('=').ok_or(wanted)?;
    Ok((name.to_owned(), command.split_whitespace().map(str::to_owned).collect()))
}

fn measure(options: &Options) -> Result<Vec<Row>, Box<dyn std::error::Error>> {
    if options.sandbox {
        let asked = sandbox::Asked {
            quick: options.quick,
            peers: options.peers,
            only: options.only.as_deref(),
            helve: &options.helve,
        };
        return sandbox::measure(&asked);
    }
    if options.files {
        let asked = files::Asked { quick: options.quick, helve: &options.helve, rg: options.rg.clone() };
        return files::measure(&asked);
    }
    if options.mcp {
        let everything = options.everything.clone();
        let (helve, clients) = (options.helve.as_path(), options.clients.as_slice());
        let asked = mcp::Asked { quick: options.quick, helve, everything, clients };
        return mcp::measure(&asked);
    }
    if options.agent {
        return agent::measure(&agent::Asked { quick: options.quick, helve: &options.helve });
    }
    let mut rows = inside::measure(options.quick)?;
    rows.extend(outside::measure(&options.helve, options.quick)?);
    Ok(rows)
}
