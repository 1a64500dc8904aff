//! Clients of databases: which file or host they open, and the commands of theirs that start programs.

use super::super::options::{Grammar, Takes};
use super::reading::{Reading, asks_for_help, long};
use super::{Invocation, Meaning, On, hosts};
use crate::analysis::{Arg, DepartureKind, EffectKind, Input, OpaqueReason};

pub(super) fn understand(program: &str, invocation: &Invocation<'_>) -> Option<Meaning> {
    if !matches!(program, "sqlite3" | "psql" | "mysql" | "mariadb" | "redis-cli" | "mongosh" | "mongo") {
        return None;
    }
    if asks_for_help(invocation.args) {
        return Some(Meaning::default());
    }
    if program == "sqlite3" { sqlite(invocation) } else { client(program, invocation) }
}

const SQLITE: Grammar = Grammar {
    long: &[
        ("A", Takes::Nothing),
        ("append", Takes::Nothing),
        ("ascii", Takes::Nothing),
        ("bail", Takes::Nothing),
        ("batch", Takes::Nothing),
        ("box", Takes::Nothing),
        ("cmd", Takes::Value),
        ("column", Takes::Nothing),
        ("csv", Takes::Nothing),
        ("echo", Takes::Nothing),
        ("header", Takes::Nothing),
        ("noheader", Takes::Nothing),
        ("html", Takes::Nothing),
        ("init", Takes::Value),
        ("interactive", Takes::Nothing),
        ("json", Takes::Nothing),
        ("line", Takes::Nothing),
        ("list", Takes::Nothing),
        ("markdown", Takes::Nothing),
        ("newline", Takes::Value),
        ("nofollow", Takes::Nothing),
        ("nullvalue", Takes::Value),
        ("quote", Takes::Nothing),
        ("readonly", Takes::Nothing),
        ("safe", Takes::Nothing),
        ("separator", Takes::Value),
        ("stats", Takes::Nothing),
        ("table", Takes::Nothing),
        ("tabs", Takes::Nothing),
        ("version", Takes::Nothing),
        ("help", Takes::Nothing),
        ("vfs", Takes::Value),
        ("zip", Takes::Nothing),
    ],
    single_dash: true,
    ..Grammar::NONE
};

fn sqlite(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &SQLITE);
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    let operands = reading.operands();
    let statements: Vec<usize> = operands.iter().skip(1).copied().collect();
    let only_reads = reading.has(&["readonly"])
        || (!statements.is_empty() && statements.iter().all(|at| reading.text(*at).is_some_and(is_query)));
    if let Some(file) = operands.first().filter(|file| reading.text(**file) != Some(":memory:")) {
        reading.add(if only_reads { EffectKind::Read } else { EffectKind::Write }, On::Arg(*file));
    }
    let commands: Vec<usize> =
        reading.values(&["cmd"]).iter().map(|place| place.arg).chain(statements).collect();
    for at in commands {
        if reading.args.get(at).is_some_and(|arg| sqlite_runs(arg.prefix())) && !reading.has(&["safe"]) {
            reading.meaning.departures.push((DepartureKind::Code, at));
            let span = reading.args[at].span;
            let lines = reading.text(at).into_iter().flat_map(|text| text.lines().filter_map(shell_line));
            reading
                .meaning
                .inner
                .extend(lines.filter_map(|line| super::shell_inner(Some(Arg::known(line, span)))));
        }
    }
    reading.depart(DepartureKind::Code, &["init"]);
    if let Input::Text(text) = invocation.input
        && sqlite_runs(text.prefix())
    {
        reading.meaning.opaque.push((OpaqueReason::Code, None));
        reading.meaning.runs_lines(text, shell_line);
    }
    reading.done()
}

/// The command that a line of psql or mysql hands to a shell.
fn escape(line: &str) -> Option<&str> {
    if let Some((_, command)) = line.split_once("\\!") {
        return Some(command);
    }
    let start = line.get(.."system ".len())?;
    start.eq_ignore_ascii_case("system ").then(|| &line[start.len()..])
}

fn is_query(text: &str) -> bool {
    let lower = text.trim_start().to_ascii_lowercase();
    let starts = [
        "select",
        "pragma",
        "explain",
        "with",
        ".schema",
        ".tables",
        ".dump",
        ".indexes",
        ".mode",
        ".headers",
        ".databases",
    ];
    starts.iter().any(|start| lower.starts_with(start))
        && !lower.contains("insert")
        && !lower.contains("delete")
}

/// What `.shell` and `.system` give to a shell.
fn shell_line(line: &str) -> Option<&str> {
    let (command, rest) = line.trim_start().split_once(' ')?;
    matches!(command, ".shell" | ".system").then_some(rest)
}

/// Whether a line of the text is a command of sqlite that starts a program or loads code.
fn sqlite_runs(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        let runs =
            [".shell", ".system", ".sy", ".sh", ".load", ".read"].iter().any(|start| line.starts_with(start));
        let pipes =
            [".once", ".output", ".import"].iter().any(|start| line.starts_with(start)) && line.contains('|');
        runs || pipes
            || line.contains("load_extension")
            || line.contains("edit(")
            || line.contains("writefile(")
    })
}

const PSQL: Grammar = Grammar {
    flags: "01aAbeEHlnqsStVwWxXz",
    values: "cdfFhLopPRTUv",
    long: long![
        "command" = Value,
        "dbname" = Value,
        "file" = Value,
        "host" = Value,
        "log-file" = Value,
        "output" = Value,
        "port" = Value,
        "username" = Value,
        "no-password",
        "password",
        "list",
        "quiet",
        "single-transaction",
        "tuples-only",
        "no-align",
        "csv",
        "expanded",
        "echo-all",
        "no-psqlrc",
        "set" = Value,
        "variable" = Value,
        "field-separator" = Value,
        "html",
        "pset" = Value,
        "single-step",
        "single-line",
        "echo-queries",
        "echo-errors"
    ],
    ..Grammar::NONE
};
const MYSQL: Grammar = Grammar {
    flags: "ABbCcfGgHiNnqRrstTVvwXx",
    values: "DehPSuU",
    optional: "p",
    long: long![
        "host" = Value,
        "execute" = Value,
        "user" = Value,
        "password" = Optional,
        "database" = Value,
        "port" = Value,
        "socket" = Value,
        "init-command" = Value,
        "defaults-file" = Value,
        "defaults-extra-file" = Value,
        "defaults-group-suffix" = Value,
        "batch",
        "silent",
        "table",
        "skip-column-names",
        "raw",
        "xml",
        "html",
        "force",
        "verbose",
        "protocol" = Value,
        "ssl-mode" = Value,
        "ssl-ca" = Value,
        "default-character-set" = Value,
        "tee" = Value,
        "pager" = Optional,
        "local-infile" = Optional,
        "plugin-dir" = Value,
        "connect-timeout" = Value
    ],
    ..Grammar::NONE
};
const OTHER: Grammar = Grammar {
    flags: "cx",
    values: "aefhinpsu",
    long: long![
        "host" = Value,
        "port" = Value,
        "eval" = Value,
        "file" = Value,
        "username" = Value,
        "password" = Value,
        "quiet",
        "raw",
        "csv",
        "json",
        "scan",
        "bigkeys",
        "pattern" = Value,
        "tls",
        "norc",
        "nodb",
        "pipe",
        "stat",
        "user" = Value,
        "no-auth-warning"
    ],
    ..Grammar::NONE
};

fn client(program: &str, invocation: &Invocation<'_>) -> Option<Meaning> {
    let grammar = match program {
        "psql" => &PSQL,
        "mysql" | "mariadb" => &MYSQL,
        _ => &OTHER,
    };
    let mut reading = Reading::new(invocation, grammar);
    for place in reading.values(&["h", "host"]) {
        // A path is the directory of a local socket.
        if !place.prefix(invocation.args).starts_with('/') {
            let host = place.text(invocation.args).and_then(hosts::of_authority);
            let on = host.map_or(On::Unknown(Some(place.arg)), |host| On::Host(host, Some(place.arg)));
            reading.add(EffectKind::Connect, on);
        }
    }
    let names = reading.values(&["d", "dbname", "u"]).into_iter().map(|place| place.arg);
    let addresses: Vec<usize> = names.chain(reading.operands()).collect();
    for at in addresses {
        let host = reading.text(at).filter(|text| text.contains("://")).and_then(hosts::of_url);
        if let Some(host) = host {
            reading.add(EffectKind::Connect, On::Host(host, Some(at)));
        }
    }
    let statements = reading.values(&["c", "command", "e", "execute", "init-command"]);
    for place in statements {
        if starts_program(place.prefix(invocation.args)) {
            reading.meaning.departures.push((DepartureKind::Code, place.option));
            place
                .value(invocation.args)
                .into_iter()
                .for_each(|text| reading.meaning.runs_lines(&text, escape));
        }
    }
    reading.each_value(EffectKind::Read, &["f", "file"]);
    reading.each_value(EffectKind::Write, &["o", "output", "L", "log-file", "tee"]);
    reading.depart(DepartureKind::Code, &["f", "file", "eval"]);
    reading.depart(DepartureKind::Program, &["pager", "plugin-dir"]);
    reading.depart(DepartureKind::Configuration, &["defaults-file", "defaults-extra-file"]);
    if let Input::Text(text) = invocation.input
        && starts_program(text.prefix())
    {
        reading.meaning.opaque.push((OpaqueReason::Code, None));
    }
    reading.done()
}

/// Whether a statement of psql or mysql starts a program on this side or on the server's.
fn starts_program(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let escape = lower.contains("\\!") || lower.contains("\\o |") || lower.contains("\\g |");
    let words: Vec<&str> = lower.split_ascii_whitespace().take(4096).collect();
    escape
        || (words.contains(&"program") && words.contains(&"copy"))
        || words.first() == Some(&"system")
        || lower.contains("; system ")
}
