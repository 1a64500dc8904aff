//! Programs that copy files between machines: `scp`, `sftp`, `rsync`.

use super::super::super::options::{Grammar, Place};
use super::super::reading::{Reading, long};
use super::super::{Invocation, Meaning, On, hosts, shell_inner};
use crate::analysis::{DepartureKind, EffectKind};

const SCP: Grammar = Grammar { flags: "12346ABCOpqRrsTv", values: "cDFiJloPSX", ..Grammar::NONE };
const SFTP: Grammar = Grammar { flags: "1246aACfNpqrv", values: "BbcDFiJloPRsSX", ..Grammar::NONE };
const RSYNC: Grammar = Grammar {
    flags: "04678AaCcDdEFgHhIiJKkLlmNnOoPpqRrSstuUvWXxyz",
    values: "@BefMT",
    long: long![
        "verbose",
        "quiet",
        "no-motd",
        "checksum",
        "archive",
        "no-recursive",
        "recursive",
        "relative",
        "no-relative",
        "no-implied-dirs",
        "backup",
        "backup-dir" = Value,
        "suffix" = Value,
        "update",
        "inplace",
        "append",
        "append-verify",
        "dirs",
        "links",
        "copy-links",
        "copy-unsafe-links",
        "safe-links",
        "munge-links",
        "copy-dirlinks",
        "keep-dirlinks",
        "hard-links",
        "perms",
        "no-perms",
        "executability",
        "chmod" = Value,
        "acls",
        "xattrs",
        "owner",
        "no-owner",
        "group",
        "no-group",
        "devices",
        "specials",
        "times",
        "no-times",
        "atimes",
        "open-noatime",
        "crtimes",
        "omit-dir-times",
        "omit-link-times",
        "super",
        "fake-super",
        "sparse",
        "preallocate",
        "dry-run",
        "whole-file",
        "no-whole-file",
        "checksum-choice" = Value,
        "one-file-system",
        "block-size" = Value,
        "rsh" = Value,
        "rsync-path" = Value,
        "existing",
        "ignore-existing",
        "remove-source-files",
        "remove-sent-files",
        "delete",
        "del",
        "delete-before",
        "delete-during",
        "delete-delay",
        "delete-after",
        "delete-excluded",
        "ignore-missing-args",
        "delete-missing-args",
        "ignore-errors",
        "force",
        "max-delete" = Value,
        "max-size" = Value,
        "min-size" = Value,
        "partial",
        "partial-dir" = Value,
        "delay-updates",
        "prune-empty-dirs",
        "numeric-ids",
        "usermap" = Value,
        "groupmap" = Value,
        "chown" = Value,
        "timeout" = Value,
        "contimeout" = Value,
        "ignore-times",
        "size-only",
        "modify-window" = Value,
        "temp-dir" = Value,
        "fuzzy",
        "compare-dest" = Value,
        "copy-dest" = Value,
        "link-dest" = Value,
        "compress",
        "compress-choice" = Value,
        "compress-level" = Value,
        "skip-compress" = Value,
        "cvs-exclude",
        "filter" = Value,
        "exclude" = Value,
        "exclude-from" = Value,
        "include" = Value,
        "include-from" = Value,
        "files-from" = Value,
        "from0",
        "protect-args",
        "secluded-args",
        "old-args",
        "trust-sender",
        "copy-as" = Value,
        "address" = Value,
        "port" = Value,
        "sockopts" = Value,
        "blocking-io",
        "outbuf" = Value,
        "stats",
        "8-bit-output",
        "human-readable" = Optional,
        "progress",
        "itemize-changes",
        "remote-option" = Value,
        "out-format" = Value,
        "log-file" = Value,
        "log-file-format" = Value,
        "password-file" = Value,
        "early-input" = Value,
        "list-only",
        "bwlimit" = Value,
        "stop-after" = Value,
        "stop-at" = Value,
        "write-batch" = Value,
        "only-write-batch" = Value,
        "read-batch" = Value,
        "protocol" = Value,
        "iconv" = Value,
        "checksum-seed" = Value,
        "ipv4",
        "ipv6",
        "info" = Value,
        "debug" = Value,
        "stderr" = Value,
        "mkpath",
        "no-inc-recursive",
        "inc-recursive",
        "daemon",
        "config" = Value,
        "write-devices",
        "copy-devices",
        "no-compress",
        "no-links"
    ],
    ..Grammar::NONE
};

/// What remote and local operands of a copy mean. Says which operand is the target, if that is local.
fn operands(reading: &mut Reading<'_>) -> (Vec<usize>, Option<usize>) {
    let mut operands = reading.operands();
    let target = if operands.len() > 1 || reading.has_more() { operands.pop() } else { None };
    let mut local = Vec::new();
    for operand in operands {
        match remote(reading, operand) {
            Some(host) => reading.add(EffectKind::Connect, On::Host(host, Some(operand))),
            None => {
                reading.add(EffectKind::Read, On::Arg(operand));
                local.push(operand);
            }
        }
    }
    let target = target.and_then(|target| match remote(reading, target) {
        Some(host) => {
            reading.add(EffectKind::Connect, On::Host(host, Some(target)));
            None
        }
        None => Some(target),
    });
    if reading.has_more() {
        reading.add(EffectKind::Read, On::Unknown(None));
    }
    (local, target)
}

/// The host of a remote operand, also of one whose path is not known.
fn remote(reading: &Reading<'_>, operand: usize) -> Option<String> {
    let text = reading.args[operand].prefix();
    hosts::of_remote_path(text).map(|host| at_port(reading, text, &host))
}

/// A host with the port that the copy goes to, where that can be read: `-P` of `scp` and `sftp`, `--port` for a module of
/// `rsync`; a shell that `rsync` is told to use has one of its own.
fn at_port(reading: &Reading<'_>, text: &str, host: &str) -> String {
    let is_module = text.contains("::");
    let (names, usual): (&[&str], _) = if is_module { (&["port"], 873) } else { (&["P"], 22) };
    let port = match reading.values(names).first() {
        Some(place) => place.text(reading.args).and_then(|port| port.parse().ok()),
        None if !is_module && reading.has(&["e", "rsh", "o", "F"]) => None,
        None => Some(usual),
    };
    port.map_or_else(|| host.to_owned(), |port| hosts::at_port(host, port))
}

/// Options of `ssh` that `scp` and `sftp` take too.
fn ssh_options(reading: &mut Reading<'_>) {
    for place in reading.values(&["o"]) {
        let option = place.prefix(reading.args).to_ascii_lowercase();
        if ["proxycommand", "localcommand", "knownhostscommand", "permitlocalcommand"]
            .iter()
            .any(|name| option.starts_with(name))
        {
            reading.meaning.departures.push((DepartureKind::Program, place.option));
            let text = place.prefix(reading.args);
            let skip = text.find(['=', ' ']).map_or(text.len(), |at| at + 1);
            let command = Place { skip: place.skip + skip, ..place };
            reading.meaning.inner.extend(shell_inner(command.value(reading.args)));
        }
    }
    reading.depart(DepartureKind::Program, &["S", "D"]);
    reading.depart(DepartureKind::Configuration, &["F"]);
    reading.each_value(EffectKind::Read, &["i", "F"]);
    for jump in reading.values(&["J"]) {
        if let Some(host) = jump.text(reading.args).and_then(hosts::of_authority) {
            reading.add(EffectKind::Connect, On::Host(hosts::at_port(&host, 22), Some(jump.arg)));
        }
    }
}

pub(super) fn scp(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &SCP);
    let (_, target) = operands(&mut reading);
    if let Some(target) = target {
        reading.add(EffectKind::Write, On::Arg(target));
    }
    ssh_options(&mut reading);
    reading.done()
}

pub(super) fn sftp(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &SFTP);
    let operands = reading.operands();
    if let Some(destination) = operands.first() {
        let text = reading.args[*destination].prefix();
        let host = hosts::of_remote_path(text).or_else(|| hosts::of_authority(text));
        let on = host.map_or(On::Unknown(Some(*destination)), |host| {
            On::Host(at_port(&reading, text, &host), Some(*destination))
        });
        reading.add(EffectKind::Connect, on);
    }
    if let Some(target) = operands.get(1) {
        reading.add(EffectKind::Write, On::Arg(*target));
    }
    // A batch can start commands on this side.
    reading.each_value(EffectKind::Read, &["b"]);
    reading.depart(DepartureKind::Code, &["b"]);
    ssh_options(&mut reading);
    reading.done()
}

pub(super) fn rsync(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &RSYNC);
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    let (sources, target) = operands(&mut reading);
    let dry = reading.has(&["n", "dry-run", "list-only"]);
    if let Some(target) = target.filter(|_| !dry) {
        let deletes = [
            "delete",
            "del",
            "delete-before",
            "delete-during",
            "delete-delay",
            "delete-after",
            "delete-excluded",
            "delete-missing-args",
        ];
        reading.add(EffectKind::Write, On::Arg(target));
        if reading.has(&deletes) {
            reading.add(EffectKind::DeleteTree, On::Arg(target));
        }
    }
    if reading.has(&["remove-source-files", "remove-sent-files"]) && !dry {
        reading.each(EffectKind::Delete, &sources);
    }
    for place in reading.values(&["e", "rsh"]) {
        if !is_plain_ssh(place.text(invocation.args)) {
            reading.meaning.departures.push((DepartureKind::Program, place.option));
            reading.meaning.inner.extend(shell_inner(place.value(invocation.args)));
        }
    }
    reading.depart(DepartureKind::Program, &["rsync-path", "M", "remote-option"]);
    reading.depart(DepartureKind::Configuration, &["config", "daemon"]);
    reading.each_value(
        EffectKind::Read,
        &["files-from", "exclude-from", "include-from", "password-file", "read-batch", "early-input"],
    );
    let compared = reading.values(&["compare-dest", "copy-dest", "link-dest"]);
    reading.meaning.perhaps.extend(compared.iter().map(|place| place.on(invocation.args)));
    reading.each_value(
        EffectKind::Write,
        &["log-file", "backup-dir", "temp-dir", "T", "partial-dir", "write-batch", "only-write-batch"],
    );
    reading.doubt();
    reading.done()
}

/// `ssh` with options that start nothing.
fn is_plain_ssh(text: Option<&str>) -> bool {
    text.is_some_and(|text| {
        let lower = text.to_ascii_lowercase();
        text.split_ascii_whitespace()
            .next()
            .is_some_and(|program| program == "ssh" || program == "/usr/bin/ssh")
            && !["command", ";", "`", "$", "|", "&"].iter().any(|mark| lower.contains(mark))
    })
}
