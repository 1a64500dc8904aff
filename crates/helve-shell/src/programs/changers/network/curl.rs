//! `curl`.

use super::super::super::options::{Grammar, Item, Place};
use super::super::reading::{Reading, long};
use super::super::{Invocation, Meaning, On, hosts};
use super::file_of_url;
use crate::analysis::{DepartureKind, EffectKind};

const CURL: Grammar = Grammar {
    flags: "012346aBfgGhiIjJklLMnNOpqRsSvVZ#:",
    values: "AbcCdDeEFHKmoPQrtTuUwxXyYz",
    long: long![
        "anyauth",
        "append",
        "basic",
        "compressed",
        "create-dirs",
        "crlf",
        "digest",
        "disable",
        "fail",
        "fail-early",
        "fail-with-body",
        "false-start",
        "form-escape",
        "ftp-create-dirs",
        "ftp-pasv",
        "get",
        "globoff",
        "haproxy-protocol",
        "head",
        "http0.9",
        "http1.0",
        "http1.1",
        "http2",
        "http2-prior-knowledge",
        "http3",
        "http3-only",
        "ignore-content-length",
        "include",
        "insecure",
        "ipv4",
        "ipv6",
        "junk-session-cookies",
        "list-only",
        "location",
        "location-trusted",
        "manual",
        "metalink",
        "negotiate",
        "netrc",
        "netrc-optional",
        "next",
        "no-alpn",
        "no-buffer",
        "no-clobber",
        "no-keepalive",
        "no-progress-meter",
        "no-sessionid",
        "ntlm",
        "parallel",
        "parallel-immediate",
        "path-as-is",
        "post301",
        "post302",
        "post303",
        "progress-bar",
        "progress-meter",
        "proxytunnel",
        "raw",
        "remote-header-name",
        "remote-name",
        "remote-name-all",
        "remote-time",
        "remove-on-error",
        "retry-all-errors",
        "retry-connrefused",
        "show-error",
        "show-headers",
        "silent",
        "skip-existing",
        "ssl",
        "ssl-reqd",
        "styled-output",
        "no-styled-output",
        "suppress-connect-headers",
        "tcp-fastopen",
        "tcp-nodelay",
        "tlsv1",
        "tlsv1.0",
        "tlsv1.1",
        "tlsv1.2",
        "tlsv1.3",
        "sslv2",
        "sslv3",
        "tr-encoding",
        "trace-ids",
        "trace-time",
        "use-ascii",
        "verbose",
        "xattr",
        "proxy-insecure",
        "proxy-basic",
        "proxy-digest",
        "proxy-anyauth",
        "cert-status",
        "ca-native",
        "ssl-no-revoke",
        "doh-insecure",
        "abstract-unix-socket" = Value,
        "alt-svc" = Value,
        "aws-sigv4" = Value,
        "cacert" = Value,
        "capath" = Value,
        "cert" = Value,
        "cert-type" = Value,
        "ciphers" = Value,
        "config" = Value,
        "connect-timeout" = Value,
        "connect-to" = Value,
        "continue-at" = Value,
        "cookie" = Value,
        "cookie-jar" = Value,
        "create-file-mode" = Value,
        "crlfile" = Value,
        "curves" = Value,
        "data" = Value,
        "data-ascii" = Value,
        "data-binary" = Value,
        "data-raw" = Value,
        "data-urlencode" = Value,
        "delegation" = Value,
        "dns-interface" = Value,
        "dns-ipv4-addr" = Value,
        "dns-servers" = Value,
        "doh-url" = Value,
        "dump-header" = Value,
        "egd-file" = Value,
        "engine" = Value,
        "etag-compare" = Value,
        "etag-save" = Value,
        "expect100-timeout" = Value,
        "form" = Value,
        "form-string" = Value,
        "ftp-account" = Value,
        "ftp-method" = Value,
        "ftp-port" = Value,
        "happy-eyeballs-timeout-ms" = Value,
        "header" = Value,
        "hostpubmd5" = Value,
        "hsts" = Value,
        "interface" = Value,
        "json" = Value,
        "keepalive-time" = Value,
        "key" = Value,
        "key-type" = Value,
        "krb" = Value,
        "libcurl" = Value,
        "limit-rate" = Value,
        "local-port" = Value,
        "login-options" = Value,
        "mail-from" = Value,
        "mail-rcpt" = Value,
        "max-filesize" = Value,
        "max-redirs" = Value,
        "max-time" = Value,
        "netrc-file" = Value,
        "noproxy" = Value,
        "oauth2-bearer" = Value,
        "output" = Value,
        "output-dir" = Value,
        "parallel-max" = Value,
        "pass" = Value,
        "pinnedpubkey" = Value,
        "preproxy" = Value,
        "proto" = Value,
        "proto-default" = Value,
        "proto-redir" = Value,
        "proxy" = Value,
        "proxy1.0" = Value,
        "proxy-header" = Value,
        "proxy-user" = Value,
        "proxy-cert" = Value,
        "proxy-key" = Value,
        "proxy-cacert" = Value,
        "pubkey" = Value,
        "quote" = Value,
        "random-file" = Value,
        "range" = Value,
        "rate" = Value,
        "referer" = Value,
        "request" = Value,
        "request-target" = Value,
        "resolve" = Value,
        "retry" = Value,
        "retry-delay" = Value,
        "retry-max-time" = Value,
        "socks4" = Value,
        "socks4a" = Value,
        "socks5" = Value,
        "socks5-hostname" = Value,
        "speed-limit" = Value,
        "speed-time" = Value,
        "stderr" = Value,
        "telnet-option" = Value,
        "tftp-blksize" = Value,
        "time-cond" = Value,
        "tls-max" = Value,
        "tls13-ciphers" = Value,
        "trace" = Value,
        "trace-ascii" = Value,
        "trace-config" = Value,
        "unix-socket" = Value,
        "upload-file" = Value,
        "url" = Value,
        "url-query" = Value,
        "user" = Value,
        "user-agent" = Value,
        "variable" = Value,
        "write-out" = Value
    ],
    ..Grammar::NONE
};

const WRITES: &[&str] = &[
    "o",
    "output",
    "output-dir",
    "D",
    "dump-header",
    "c",
    "cookie-jar",
    "trace",
    "trace-ascii",
    "stderr",
    "etag-save",
    "hsts",
    "alt-svc",
    "libcurl",
];
const READS: &[&str] = &[
    "T",
    "upload-file",
    "cacert",
    "capath",
    "key",
    "netrc-file",
    "etag-compare",
    "pubkey",
    "crlfile",
    "unix-socket",
    "proxy-key",
    "proxy-cacert",
    "random-file",
    "egd-file",
];
const DATA: &[&str] =
    &["d", "data", "data-ascii", "data-binary", "json", "H", "header", "proxy-header", "w", "write-out"];

pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &CURL);
    if reading.only_informs() || reading.has(&["V", "h", "M", "manual"]) {
        return Some(Meaning::default());
    }
    let urls = reading.operands();
    let port = (!reading.has(&["proto-default"])).then_some(80);
    reading.contact_at(&urls, port);
    for url in reading.values(&["url"]) {
        reading.contact_value(url, port);
    }
    detours(&mut reading);
    reading.each_value(EffectKind::Write, WRITES);
    if reading.has(&["O", "remote-name", "remote-name-all"]) {
        let name = urls.first().map_or(".".to_owned(), |url| file_of_url(reading.text(*url)));
        reading.add(EffectKind::Write, On::Path(name, urls.first().copied()));
    }
    uploads(&mut reading);
    reading.depart(DepartureKind::Configuration, &["K", "config"]);
    reading.each_value(EffectKind::Read, &["K", "config"]);
    reading.depart(DepartureKind::Program, &["engine"]);
    for format in reading.values(&["w", "write-out"]) {
        if format.prefix(invocation.args).contains("%output{") {
            reading.meaning.departures.push((DepartureKind::Output, format.option));
            reading.add(EffectKind::Write, On::Unknown(Some(format.arg)));
        }
    }
    reading.doubt();
    reading.done()
}

/// Hosts that stand in for those of the URL.
fn detours(reading: &mut Reading<'_>) {
    let proxies =
        ["x", "proxy", "proxy1.0", "preproxy", "socks4", "socks4a", "socks5", "socks5-hostname", "doh-url"];
    for proxy in reading.values(&proxies) {
        if proxy.text(reading.args) != Some("") {
            reading.contact_proxy(proxy);
        }
    }
    for (name, fields) in [("resolve", 2), ("connect-to", 2)] {
        for place in reading.values(&[name]) {
            let host = place.text(reading.args).and_then(|text| text.splitn(fields + 1, ':').nth(fields));
            let host = host.map(|host| host.split(',').next().unwrap_or(host).trim_end_matches(':'));
            let on = match host {
                Some("") => continue,
                Some(host) => On::Host(host.to_ascii_lowercase(), Some(place.arg)),
                None if place.text(reading.args).is_some_and(|text| text.starts_with('-')) => continue,
                None => On::Unknown(Some(place.arg)),
            };
            reading.add(EffectKind::Connect, on);
        }
    }
    for place in reading.values(&["dns-servers"]) {
        if let Some(host) = place.text(reading.args).and_then(hosts::of_authority) {
            reading.add(EffectKind::Connect, On::Host(host, Some(place.arg)));
        }
    }
}

/// Files that are read and sent.
fn uploads(reading: &mut Reading<'_>) {
    reading.each_value(EffectKind::Read, READS);
    for place in reading.values(DATA) {
        if place.prefix(reading.args).starts_with('@') {
            reading.read_behind(place, "@");
        }
    }
    for place in reading.values(&["data-urlencode", "url-query", "variable"]) {
        let prefix = place.prefix(reading.args);
        let at = prefix.find(['=', '@']);
        if at.is_some_and(|at| prefix[at..].starts_with('@')) {
            reading.read_behind(place, "@");
        }
    }
    for place in reading.values(&["F", "form"]) {
        let prefix = place.prefix(reading.args);
        let behind = prefix.find('=').map_or("", |at| &prefix[at..]);
        if behind.starts_with("=@") || behind.starts_with("=<") {
            let mark = &behind[..2];
            form_file(reading, place, mark);
        }
    }
    for place in reading.values(&["b", "cookie"]) {
        // A value without `=` is the name of a file.
        if place.text(reading.args).is_some_and(|text| !text.is_empty() && !text.contains('=')) {
            reading.add(EffectKind::Read, place.on(reading.args));
        }
    }
    for place in reading.values(&["E", "cert"]) {
        reading.add(EffectKind::Read, place.on(reading.args));
    }
    let netrc = reading.items.iter().find_map(|item| match item {
        Item::Flag("n" | "netrc" | "netrc-optional", at) => Some(*at),
        _ => None,
    });
    if let Some(at) = netrc {
        reading.add(EffectKind::Secret, On::Unknown(Some(at)));
    }
}

/// The file of `-F name=@file;type=text/plain`.
fn form_file(reading: &mut Reading<'_>, place: Place, mark: &str) {
    let behind = place.text(reading.args).and_then(|text| text.split_once(mark)).map(|(_, file)| file);
    match behind.and_then(|file| file.split_once(';')).map(|(file, _)| file.to_owned()) {
        Some(file) => reading.add(EffectKind::Read, On::Path(file, Some(place.arg))),
        None => reading.read_behind(place, mark),
    }
}
