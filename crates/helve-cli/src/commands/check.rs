//! `helve check`: what the policy says of a command, without running it.

use std::collections::HashSet;
use std::fmt::Write as _;

use clap::Args as ClapArgs;
use helve::shell::{self, Segment};
use helve::{Decision, Runtime, Verdict};
use rustix::fs::{Access, access};
use serde_json::{Value, json};

use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::harmless;
use crate::marked::{self, Mark};
use crate::{setup, ui};

/// Say whether a command may run, and why
#[derive(ClapArgs)]
#[command(long_about = "\
Say whether a command may run, and why. Nothing is run or recorded.

Prints the verdict, the rule that decided, the reason, the part of the command that it is about, and the smallest \
change of the configuration that would allow it. --json adds `effects`: the names of the commands in the text (what \
these start in turn is not followed), and whether a part of it cannot be told before it runs. A note says when the call \
would fail although it is allowed, because the sandbox is missing. Exit code: 0 allow, 4 ask, \
3 deny, 2 bad usage or configuration.")]
#[command(after_help = "\
Examples:
  helve check 'rm -rf build'
  helve check --json 'git push --force'
  helve check --set tools.restrict_to_workspace=true 'cat /etc/passwd'")]
pub(crate) struct Options {
    /// The command
    command: String,
    /// Where it would start [default: the workspace]
    #[arg(long, value_name = "DIR")]
    working_dir: Option<String>,
}

pub(crate) fn check(global: &Global, options: &Options) -> Result<u8, Failure> {
    let runtime = setup::runtime(global)?;
    let decision = runtime.check(&options.command, options.working_dir.as_deref());
    let note = if decision.verdict == Verdict::Deny { None } else { obstacle(&runtime) };
    if global.json {
        let mut answer = json!({
            "verdict": decision.verdict,
            "rule": decision.rule,
            "reason": decision.reason,
            "span": decision.span,
            "grant": decision.grant,
            "effects": effects(&options.command),
        });
        if let Some(note) = note {
            answer["note"] = note.into();
        }
        ui::print_json(&answer)?;
    } else {
        if let Some(note) = note {
            ui::note(&harmless(&note));
        }
        ui::print_styled(&explain(&decision, &options.command))?;
    }
    Ok(match decision.verdict {
        Verdict::Allow => 0,
        Verdict::Ask => 4,
        Verdict::Deny => 3,
    })
}

/// Why the call would fail although it may happen, as far as that shows without running anything.
fn obstacle(runtime: &Runtime) -> Option<String> {
    match runtime.sandbox() {
        Ok(report) if report.backend == "bwrap" && !is_installed("bwrap") => {
            Some("the sandbox bwrap is missing: the call would fail with sandbox_unavailable".to_owned())
        }
        Ok(_) => None,
        Err(error) => Some(format!("the call would fail with {}: {}", error.kind.name(), error.message)),
    }
}

/// Whether a program is in `PATH`, or where a system keeps its programs when that is not set.
fn is_installed(program: &str) -> bool {
    let list = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let folders = std::env::split_paths(&list).filter(|folder| folder.is_absolute());
    let mut files = folders.map(|folder| folder.join(program));
    files.any(|file| file.is_file() && access(&file, Access::EXEC_OK).is_ok())
}

/// The commands that the text names, each once, and whether some name or a part of the text stays unknown.
fn effects(command: &str) -> Value {
    let read = shell::read(command);
    let mut opaque = read.opaque.is_some();
    let mut seen = HashSet::new();
    let mut commands = Vec::new();
    for name in read.segments.iter().filter_map(Segment::name) {
        if !name.known || name.glob {
            opaque = true;
        } else if seen.insert(&name.text) {
            commands.push(&name.text);
        }
    }
    json!({"commands": commands, "opaque": opaque})
}

fn explain(decision: &Decision, command: &str) -> String {
    let (style, verdict) = match decision.verdict {
        Verdict::Allow => (ui::GOOD, "allow"),
        Verdict::Ask => (ui::CAREFUL, "ask"),
        Verdict::Deny => (ui::BAD, "deny"),
    };
    let mut text = format!("{}: {}\n", ui::styled(style, verdict), harmless(&decision.rule));
    if let Some(reason) = &decision.reason {
        let _ = writeln!(text, "{}", harmless(reason));
    }
    let marks: Vec<_> = decision.span.into_iter().map(|span| (span, Mark::Rule)).collect();
    text.push_str(&marked::drawn(command, &marks, "  "));
    if let Some(grant) = &decision.grant {
        let _ = writeln!(text, "To allow it: {}", harmless(grant));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn effects_name_the_commands_that_can_be_read() {
        let cases: [(&str, &[&str], bool); 6] = [
            ("ls -la | 'gr'ep x && ls", &["ls", "grep"], false),
            ("X=1 env echo $(date) > out", &["env", "date"], false),
            ("if test -e a; then rm a; fi", &["test", "rm"], false),
            ("ls; $TOOL x", &["ls"], true),
            ("echo 'unfinished", &["echo"], true),
            ("", &[], false),
        ];
        for (command, commands, opaque) in cases {
            assert_eq!(effects(command), json!({"commands": commands, "opaque": opaque}), "{command}");
        }
    }
}
