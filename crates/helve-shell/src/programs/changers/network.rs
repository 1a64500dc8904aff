//! Programs that talk to other machines, but for `ssh` and `git`, which are elsewhere.

mod copy;
mod curl;
mod sockets;
mod wget;

use super::super::options::{Grammar, Place, tail};
use super::reading::{Reading, asks_for_help, base_name, deeds, long};
use super::{Invocation, Meaning, On, hosts};
use crate::analysis::{Arg, ArgPart, DepartureKind, EffectKind};

pub(super) fn understand(program: &str, invocation: &Invocation<'_>) -> Option<Meaning> {
    match program {
        "curl" => curl::understand(invocation).map(Meaning::whole),
        "wget" | "wget2" => wget::understand(invocation).map(Meaning::whole),
        "scp" => copy::scp(invocation),
        "sftp" => copy::sftp(invocation),
        "rsync" => copy::rsync(invocation).map(Meaning::whole),
        "nc" | "ncat" | "netcat" => sockets::netcat(invocation),
        "socat" => sockets::socat(invocation),
        "aria2c" => aria(invocation),
        "http" | "https" | "xh" | "xhs" | "httpie" => httpie(invocation).map(Meaning::whole),
        "fetch" | "axel" | "lynx" | "links" | "elinks" | "w3m" | "lftp" | "ftp" | "telnet" | "tftp"
        | "openssl" => plain(program, invocation),
        "dig" | "host" | "nslookup" | "ping" | "ping6" | "fping" | "traceroute" | "traceroute6"
        | "tracepath" | "mtr" | "whois" | "nmap" | "ssh-keyscan" | "ssh-copy-id" | "rclone" | "smbclient"
        | "drill" | "kdig" => named_host(program, invocation),
        "aws" | "gcloud" | "az" | "gh" | "glab" | "heroku" | "vercel" | "netlify" | "flyctl" | "fly"
        | "doctl" | "twine" | "ansible" | "ansible-playbook" | "helm" => {
            let asks = asks_for_help(invocation.args) || invocation.args.is_empty();
            Some(deeds((!asks).then_some((EffectKind::Connect, On::Unknown(None)))))
        }
        "ssh-keygen" => ssh_keygen(invocation),
        _ => None,
    }
}

fn ssh_keygen(invocation: &Invocation<'_>) -> Option<Meaning> {
    let grammar =
        Grammar { flags: "ABcegHhikKLlpQqUuvy", values: "abCDEFfIJjMmNnOPRrSsTtVWYZzw", ..Grammar::NONE };
    let mut reading = Reading::new(invocation, &grammar);
    // These print what a key file holds.
    let prints = reading.has(&["l", "y", "e", "i", "F", "B", "L", "Q"]);
    reading.each_value(if prints { EffectKind::Read } else { EffectKind::Write }, &["f"]);
    // A library for tokens is code.
    reading.depart(DepartureKind::Code, &["D", "w"]);
    reading.done()
}

/// The text of an argument with its patterns as they are written, which is what a URL with a pattern stays.
fn literal(arg: &Arg) -> Option<String> {
    arg.parts
        .iter()
        .map(|part| match part {
            ArgPart::Known(text) | ArgPart::Glob(text) => Some(text.as_str()),
            ArgPart::Unknown => None,
        })
        .collect()
}

/// The URLs that an argument names, also one that is known only as far as its host.
fn urls_of(arg: &Arg) -> Vec<String> {
    if let Some(text) = literal(arg).filter(|text| arg.text().is_some() || text.contains("://")) {
        return hosts::globbed(&text).unwrap_or_default();
    }
    let prefix = arg.prefix();
    let behind = prefix.split_once("://").map_or(prefix, |(_, rest)| rest);
    let is_host_known = behind.contains(['/', '?']);
    is_host_known.then(|| hosts::globbed(prefix)).flatten().unwrap_or_default()
}

/// A connection to a host that was read, or to one that could not be.
fn connection(host: Option<String>, at: usize) -> (EffectKind, On) {
    let is_plain = |host: &String| !host.contains(['{', '}', '*']) && host.rfind('[').unwrap_or(0) == 0;
    let on = host.filter(is_plain).map_or(On::Unknown(Some(at)), |host| On::Host(host, Some(at)));
    (EffectKind::Connect, on)
}

/// Connections to what a URL names, or reading the file of a `file:` URL. The port is for URLs without a scheme.
fn contacts(arg: &Arg, at: usize, port: Option<u16>) -> Vec<(EffectKind, On)> {
    let text = arg.prefix();
    let lower = text.get(..5).unwrap_or_default().to_ascii_lowercase();
    if lower == "file:" {
        let path = text[5..].trim_start_matches("//localhost");
        let path = format!("/{}", path.trim_start_matches('/'));
        let on = if arg.text().is_some() { On::Path(path, Some(at)) } else { On::Unknown(Some(at)) };
        return vec![(EffectKind::Read, on)];
    }
    let urls = urls_of(arg);
    if urls.is_empty() {
        return vec![connection(None, at)];
    }
    let host = |url: &String| {
        let host = hosts::of_url(url)?;
        let port = port.filter(|_| !url.contains("://"));
        Some(port.map_or_else(|| host.clone(), |port| hosts::at_port(&host, port)))
    };
    urls.iter().map(|url| connection(host(url), at)).collect()
}

impl Reading<'_> {
    /// Connects to each of these URLs, at the port if they have no scheme.
    fn contact_at(&mut self, urls: &[usize], port: Option<u16>) {
        for url in urls {
            for (kind, on) in contacts(&self.args[*url], *url, port) {
                self.add(kind, on);
            }
        }
        if self.has_more() {
            self.add(EffectKind::Connect, On::Unknown(None));
        }
    }

    /// Connects to each of these URLs.
    fn contact_each(&mut self, urls: &[usize]) {
        self.contact_at(urls, None);
    }

    /// Connects to the host in an option's value.
    fn contact_value(&mut self, place: Place, port: Option<u16>) {
        if let Some(arg) = self.args.get(place.arg) {
            for (kind, on) in contacts(&tail(arg, place.skip), place.arg, port) {
                self.add(kind, on);
            }
        }
    }

    /// Connects to the proxy in an option's value.
    fn contact_proxy(&mut self, place: Place) {
        if place.arg < self.args.len() {
            let host = place.text(self.args).and_then(hosts::of_proxy);
            let (kind, on) = connection(host, place.arg);
            self.add(kind, on);
        }
    }

    /// Reads the file that a value names behind a mark such as `@`.
    fn read_behind(&mut self, place: Place, mark: &str) {
        let prefix = place.prefix(self.args);
        let Some(at) = prefix.find(mark) else { return };
        if prefix[at + mark.len()..] != *"-" {
            self.add(EffectKind::Read, On::Tail(place.arg, place.skip + at + mark.len()));
        }
    }
}

/// The file name under which a URL's content is kept.
fn file_of_url(url: Option<&str>) -> String {
    let name = url.map(|url| url.split(['?', '#']).next().unwrap_or(url)).and_then(|url| {
        let behind = url.split_once("://").map_or(url, |(_, rest)| rest);
        behind.contains('/').then(|| base_name(behind)).filter(|name| !name.is_empty())
    });
    name.filter(|name| !matches!(*name, "." | "..")).map_or_else(|| ".".to_owned(), str::to_owned)
}

fn aria(invocation: &Invocation<'_>) -> Option<Meaning> {
    let grammar = Grammar {
        flags: "cDhPqvVZ",
        values: "adijklmnoORsStTUux",
        long: long![
            "dir" = Value,
            "out" = Value,
            "input-file" = Value,
            "log" = Value,
            "conf-path" = Value,
            "max-connection-per-server" = Value,
            "split" = Value,
            "max-concurrent-downloads" = Value,
            "continue" = Optional,
            "quiet" = Optional,
            "all-proxy" = Value,
            "http-proxy" = Value,
            "https-proxy" = Value,
            "header" = Value,
            "user-agent" = Value,
            "referer" = Value,
            "load-cookies" = Value,
            "save-cookies" = Value,
            "on-download-complete" = Value,
            "on-download-start" = Value,
            "on-download-stop" = Value,
            "on-download-error" = Value,
            "on-download-pause" = Value,
            "on-bt-download-complete" = Value,
            "torrent-file" = Value,
            "seed-time" = Value,
            "allow-overwrite" = Optional,
            "file-allocation" = Value,
            "console-log-level" = Value,
            "summary-interval" = Value,
            "check-certificate" = Optional,
            "auto-file-renaming" = Optional,
            "min-split-size" = Value,
            "checksum" = Value,
            "no-conf" = Optional,
            "save-session" = Value,
            "timeout" = Value,
            "max-tries" = Value,
            "enable-rpc" = Optional
        ],
        ..Grammar::NONE
    };
    let mut reading = Reading::new(invocation, &grammar);
    if reading.only_informs() || reading.has(&["h", "v"]) {
        return Some(Meaning::default());
    }
    let urls = reading.operands();
    reading.contact_each(&urls);
    if reading.has(&["i", "input-file"]) {
        reading.each_value(EffectKind::Read, &["i", "input-file"]);
        reading.add(EffectKind::Connect, On::Unknown(None));
    }
    for proxy in reading.values(&["all-proxy", "http-proxy", "https-proxy"]) {
        reading.contact_proxy(proxy);
    }
    reading
        .each_value(EffectKind::Write, &["d", "dir", "o", "out", "l", "log", "save-cookies", "save-session"]);
    reading.each_value(EffectKind::Read, &["load-cookies", "T", "torrent-file"]);
    reading.depart(
        DepartureKind::Program,
        &[
            "on-download-complete",
            "on-download-start",
            "on-download-stop",
            "on-download-error",
            "on-download-pause",
            "on-bt-download-complete",
        ],
    );
    reading.depart(DepartureKind::Configuration, &["conf-path"]);
    if !reading.has(&["d", "dir", "o", "out"]) {
        let name = urls.first().map_or(".".to_owned(), |url| file_of_url(reading.text(*url)));
        reading.add(EffectKind::Write, On::Path(name, urls.first().copied()));
    }
    reading.done()
}

fn httpie(invocation: &Invocation<'_>) -> Option<Meaning> {
    let grammar = Grammar {
        flags: "bcdfFhIjmpqSv46",
        values: "aAoPs",
        long: long![
            "json",
            "form",
            "multipart",
            "raw" = Value,
            "pretty" = Value,
            "style" = Value,
            "print" = Value,
            "headers",
            "body",
            "verbose",
            "stream",
            "output" = Value,
            "download",
            "continue",
            "quiet",
            "session" = Value,
            "session-read-only" = Value,
            "auth" = Value,
            "auth-type" = Value,
            "ignore-netrc",
            "offline",
            "proxy" = Value,
            "follow",
            "max-redirects" = Value,
            "timeout" = Value,
            "check-status",
            "verify" = Value,
            "cert" = Value,
            "cert-key" = Value,
            "ignore-stdin",
            "default-scheme" = Value,
            "meta",
            "all"
        ],
        ..Grammar::NONE
    };
    let mut reading = Reading::new(invocation, &grammar);
    if reading.only_informs() || reading.has(&["offline"]) {
        return Some(Meaning::default());
    }
    let mut operands = reading.operands();
    let is_method = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase());
    if operands.first().and_then(|first| reading.text(*first)).is_some_and(is_method) {
        operands.remove(0);
    }
    if let Some((url, items)) = operands.split_first() {
        let port = match (reading.has(&["default-scheme"]), invocation.program) {
            (true, _) => None,
            (false, "https" | "xhs") => Some(443),
            (false, _) => Some(80),
        };
        reading.contact_at(&[*url], port);
        for item in items {
            let prefix = reading.args[*item].prefix();
            let mark = prefix.find(['=', '@', ':']).filter(|at| prefix[*at..].starts_with(['@', '=']));
            if let Some(at) = mark {
                let skip =
                    at + prefix[at..].bytes().take_while(|byte| matches!(byte, b'=' | b':' | b'@')).count();
                if prefix[at..skip].contains('@') {
                    reading.add(EffectKind::Read, On::Tail(*item, skip));
                }
            }
        }
    }
    for proxy in reading.values(&["proxy"]) {
        if let Some(skip) =
            proxy.prefix(invocation.args).find("://").and(proxy.prefix(invocation.args).find(':'))
        {
            reading.contact_proxy(Place { skip: proxy.skip + skip + 1, ..proxy });
        }
    }
    reading.each_value(EffectKind::Write, &["o", "output"]);
    reading.each_value(EffectKind::Read, &["cert", "cert-key"]);
    reading.done()
}

/// Programs that take URLs or a host, and one option for the output.
fn plain(program: &str, invocation: &Invocation<'_>) -> Option<Meaning> {
    if asks_for_help(invocation.args)
        || matches!(invocation.args.first().and_then(Arg::text), Some("-h" | "-V" | "version"))
    {
        return Some(Meaning::default());
    }
    let mut reading = Reading::new(invocation, &Grammar::NONE);
    // Their grammars are not known here; what looks like a host counts.
    reading.meaning.departures.clear();
    let args = invocation.args;
    let value_of = |names: &[&str]| {
        let at = args.iter().position(|arg| arg.text().is_some_and(|text| names.contains(&text)))?;
        (at + 1 < args.len()).then_some(at + 1)
    };
    if program == "openssl" {
        for (kind, names) in [
            (EffectKind::Write, &["-out", "-writerand", "-keyout"][..]),
            (EffectKind::Read, &["-in", "-inkey", "-key", "-kfile"][..]),
        ] {
            if let Some(file) = value_of(names) {
                reading.add(kind, On::Arg(file));
            }
        }
        if let Some(host) = value_of(&["-connect", "-host", "-proxy", "-url"]) {
            reading.contact_each(&[host]);
        }
        return reading.done();
    }
    let output = value_of(&["-o"]);
    if let Some(file) = output.filter(|file| reading.text(*file) != Some("-")) {
        reading.add(EffectKind::Write, On::Arg(file));
    }
    let commands = value_of(&["-e", "-c"]).filter(|_| program == "lftp");
    if let Some(commands) = commands {
        // The program's own commands can start others.
        reading.meaning.departures.push((DepartureKind::Code, commands));
    }
    let urls: Vec<usize> = (0..args.len())
        .filter(|at| !args[*at].prefix().starts_with('-') && Some(*at) != output && Some(*at) != commands)
        .collect();
    let first_only = matches!(program, "telnet" | "ftp" | "tftp" | "lftp");
    let is_local = |at: &usize| {
        matches!(program, "lynx" | "links" | "elinks" | "w3m") && !args[*at].prefix().contains("://")
    };
    for url in urls.iter().take(if first_only { 1 } else { usize::MAX }) {
        if is_local(url)
            && reading.text(*url).is_some_and(|text| text.starts_with(['/', '.']) || text.ends_with(".html"))
        {
            reading.add(EffectKind::Read, On::Arg(*url));
        } else {
            reading.contact_each(&[*url]);
        }
    }
    reading.done()
}

/// Programs whose first word with the look of a host is one.
fn named_host(program: &str, invocation: &Invocation<'_>) -> Option<Meaning> {
    let args = invocation.args;
    if asks_for_help(args) || args.is_empty() {
        return Some(Meaning::default());
    }
    let mut reading = Reading::new(invocation, &Grammar::NONE);
    reading.meaning.departures.clear();
    let mut found = false;
    for (at, arg) in args.iter().enumerate() {
        let text = arg.prefix();
        let is_server = text.starts_with('@');
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if text.starts_with(['-', '+']) || is_number || (found && !is_server) {
            continue;
        }
        if matches!(program, "dig" | "drill" | "kdig") && is_record_type(text) {
            continue;
        }
        let name = if program == "rclone" {
            hosts::of_remote_path(text)
        } else {
            hosts::of_authority(text.trim_start_matches('@'))
        };
        if program == "rclone" && name.is_none() {
            continue;
        }
        let on = match name {
            Some(host) if arg.text().is_some() => On::Host(host, Some(at)),
            _ => On::Unknown(Some(at)),
        };
        found |= !is_server;
        reading.add(EffectKind::Connect, on);
    }
    if program == "ssh-copy-id" {
        reading.add(EffectKind::Persist, On::Unknown(None));
    }
    reading.done()
}

/// Whether a word of `dig` is the type or the class of a record.
fn is_record_type(text: &str) -> bool {
    const TYPES: [&str; 20] = [
        "a", "aaaa", "any", "axfr", "ixfr", "caa", "cname", "dnskey", "ds", "mx", "naptr", "ns", "ptr",
        "soa", "srv", "tlsa", "txt", "in", "ch", "https",
    ];
    TYPES.iter().any(|kind| text.eq_ignore_ascii_case(kind))
}
