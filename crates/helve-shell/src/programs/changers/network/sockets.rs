//! Programs that join a socket to something else: `nc` and `socat`.

use super::super::super::options::{Grammar, tail};
use super::super::reading::{Reading, long};
use super::super::{Invocation, Meaning, On, hosts, shell_inner};
use crate::analysis::{Arg, DepartureKind, EffectKind, More};
use crate::programs::Inner;

const NETCAT: Grammar = Grammar {
    flags: "46abCDdFhklNnrStUuvZz",
    values: "cegGiIMmOopPqQsTVwXx",
    long: long![
        "exec" = Value,
        "sh-exec" = Value,
        "lua-exec" = Value,
        "listen",
        "keep-open",
        "udp",
        "sctp",
        "ssl",
        "ssl-cert" = Value,
        "ssl-key" = Value,
        "ssl-verify",
        "ssl-trustfile" = Value,
        "proxy" = Value,
        "proxy-type" = Value,
        "proxy-auth" = Value,
        "wait" = Value,
        "idle-timeout" = Value,
        "source" = Value,
        "source-port" = Value,
        "output" = Value,
        "hex-dump" = Value,
        "append-output",
        "allow" = Value,
        "allowfile" = Value,
        "deny" = Value,
        "broker",
        "chat",
        "telnet",
        "verbose",
        "send-only",
        "recv-only",
        "no-shutdown",
        "nodns",
        "crlf",
        "max-conns" = Value,
        "unixsock",
        "vsock",
        "delay" = Value
    ],
    ..Grammar::NONE
};

pub(super) fn netcat(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &NETCAT);
    if reading.only_informs() || reading.has(&["h"]) {
        return Some(Meaning::default());
    }
    for place in reading.values(&["e", "exec"]) {
        reading.meaning.departures.push((DepartureKind::Program, place.option));
        if let Some(program) = place.value(invocation.args) {
            reading.meaning.inner.push(Inner::Argv {
                argv: vec![program],
                more: More::Nothing,
                environment: Vec::new(),
                keeps_input: false,
                directory: None,
                elsewhere: false,
            });
        }
    }
    for place in reading.values(&["c", "sh-exec"]) {
        reading.meaning.departures.push((DepartureKind::Program, place.option));
        reading.meaning.inner.extend(shell_inner(place.value(invocation.args)));
    }
    reading.depart(DepartureKind::Code, &["lua-exec"]);
    reading.each_value(EffectKind::Write, &["output", "hex-dump"]);
    for proxy in reading.values(&["x", "proxy"]) {
        reading.contact_proxy(proxy);
    }
    let operands = reading.operands();
    if reading.has(&["U", "unixsock"]) {
        reading.each(EffectKind::Write, &operands);
        return reading.done();
    }
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    match operands.as_slice() {
        [] => {}
        [only] if reading.text(*only).is_some_and(is_port) => {}
        [host, rest @ ..] => {
            let name = reading.text(*host).and_then(hosts::of_authority);
            let port = rest.first().and_then(|port| reading.text(*port));
            let on = match (name, port) {
                (Some(name), Some(port)) => On::Host(format!("{name}:{port}"), Some(*host)),
                (Some(name), None) => On::Host(name, Some(*host)),
                (None, _) => On::Unknown(Some(*host)),
            };
            reading.add(EffectKind::Connect, on);
        }
    }
    if reading.has(&["l", "listen"]) {
        reading.add(EffectKind::Connect, On::Unknown(None));
    }
    reading.done()
}

pub(super) fn socat(invocation: &Invocation<'_>) -> Option<Meaning> {
    let grammar = Grammar {
        flags: "dDhsuUvVxgWS46",
        values: "btTlLr",
        optional: "",
        long: long!["experimental", "statistics"],
        ..Grammar::NONE
    };
    let mut reading = Reading::new(invocation, &grammar);
    if reading.only_informs() || reading.has(&["h", "V"]) {
        return Some(Meaning::default());
    }
    // The options of socat are of several letters; an address is what counts.
    reading.meaning.departures.clear();
    for operand in reading.operands() {
        let Some(text) = reading.text(operand) else {
            let start = reading.args[operand].prefix();
            address(&mut reading, operand, 0, start);
            continue;
        };
        // `a!!b` is one address for reading and one for writing.
        let mut skip = 0;
        for half in text.split("!!") {
            address(&mut reading, operand, skip, half);
            skip += half.len() + 2;
        }
    }
    reading.done()
}

/// What one address of socat opens.
fn address(reading: &mut Reading<'_>, operand: usize, skip: usize, text: &str) {
    let (keyword, rest) = text.split_once(':').unwrap_or((text, ""));
    let keyword = keyword.to_ascii_uppercase();
    let plain = rest.split(',').next().unwrap_or(rest);
    let is_certain = reading.text(operand).is_some();
    let family = keyword.split('-').next().unwrap_or(&keyword);
    match family {
        "EXEC" | "SYSTEM" | "SHELL" => {
            reading.meaning.departures.push((DepartureKind::Program, operand));
            let whole = tail(&reading.args[operand], skip + keyword.len() + 1);
            let command = if is_certain { Arg::known(plain, whole.span) } else { whole };
            reading.meaning.inner.extend(shell_inner(Some(command)));
        }
        "OPEN" | "FILE" | "CREATE" | "CREAT" | "GOPEN" | "PIPE" | "UNIX" | "ABSTRACT" | "LOCAL"
            if !plain.is_empty() =>
        {
            reading.add(EffectKind::Write, On::Path(plain.to_owned(), Some(operand)));
        }
        "" | "STDIO" | "STDIN" | "STDOUT" | "STDERR" | "FD" | "PTY" => {}
        _ if keyword.contains("LISTEN") || keyword.contains("RECV") => {
            reading.add(EffectKind::Connect, On::Unknown(Some(operand)));
        }
        "TCP" | "TCP4" | "TCP6" | "UDP" | "UDP4" | "UDP6" | "SSL" | "OPENSSL" | "SCTP" | "SOCKS"
        | "SOCKS4" | "SOCKS4A" | "SOCKS5" | "PROXY" | "IP" | "IP4" | "IP6" | "DCCP" | "DTLS" => {
            let on = if is_certain && !plain.is_empty() {
                On::Host(plain.to_ascii_lowercase(), Some(operand))
            } else {
                On::Unknown(Some(operand))
            };
            reading.add(EffectKind::Connect, on);
        }
        // A path alone is a file.
        _ if rest.is_empty() && keyword.contains('/') => reading.add(EffectKind::Write, On::Arg(operand)),
        _ => {}
    }
}
