//! Measures Helve beside a reference operation of the same run, so that a noisy machine moves both.
//!
//! `helve-bench [sandbox] [--json] [--quick] [--check] [--peers] [--helve PATH]` prints one row a measurement: what Helve
//! takes, what the reference takes, their ratio and the ratio that is promised. `--check` exits 1 when a promise is
//! missed. With the word `sandbox` it measures the sandboxes alone, and with `--peers` other programs beside them.
//!
//! | module | measures |
//! |---|---|
//! | `inside` | stages and the whole pipeline, in this process |
//! | `outside` | the `helve` program: start-up, memory, commands, a gigabyte of output |
//! | `sandbox` | the sandboxes and their lanes beside bare spawns and other programs |
//! | `sample` | interleaved timing and medians |
//! | `report` | the table and the JSON |

mod inside;
mod outside;
mod report;
mod sample;
mod sandbox;

use std::path::PathBuf;
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
    /// Other programs beside them.
    peers: bool,
    helve: PathBuf,
}

fn main() -> ExitCode {
    helve::sandbox::run_helper_if_asked();
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            report::complain(&message);
            return ExitCode::from(2);
        }
    };
    match measure(&options) {
        Ok(rows) => {
            report::print(&rows, options.json);
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
        peers: false,
        helve: PathBuf::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => options.json = true,
            "--check" => options.check = true,
            "sandbox" => options.sandbox = true,
            "--peers" => options.peers = true,
            "--quick" => options.quick = true,
            "--helve" => options.helve = args.next().ok_or("--helve wants the path of the program")?.into(),
            other => {
                return Err(format!(
                    "unknown option {other}\nusage: helve-bench [sandbox] [--json] [--quick] [--check] [--peers] [--helve PATH]"
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

fn measure(options: &Options) -> Result<Vec<Row>, Box<dyn std::error::Error>> {
    if options.sandbox {
        let asked = sandbox::Asked { quick: options.quick, peers: options.peers, helve: &options.helve };
        return sandbox::measure(&asked);
    }
    let mut rows = inside::measure(options.quick)?;
    rows.extend(outside::measure(&options.helve, options.quick)?);
    Ok(rows)
}
