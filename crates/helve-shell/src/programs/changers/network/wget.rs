//! `wget`.

use super::super::super::options::Grammar;
use super::super::reading::{Reading, long};
use super::super::{Invocation, Meaning, On};
use super::file_of_url;
use crate::analysis::{DepartureKind, EffectKind};

const WGET: Grammar = Grammar {
    flags: "46bcdEFghHkKLmNpqrSvVx",
    // `n` stands before a second letter, as in `-nc`.
    values: "aABDeIilnoOPQRtTUwX",
    long: long![
        "background",
        "execute" = Value,
        "output-file" = Value,
        "append-output" = Value,
        "debug",
        "quiet",
        "verbose",
        "no-verbose",
        "report-speed" = Value,
        "input-file" = Value,
        "force-html",
        "base" = Value,
        "config" = Value,
        "no-config",
        "rejected-log" = Value,
        "tries" = Value,
        "retry-connrefused",
        "retry-on-http-error" = Value,
        "output-document" = Value,
        "no-clobber",
        "no-netrc",
        "continue",
        "start-pos" = Value,
        "progress" = Value,
        "show-progress",
        "timestamping",
        "no-if-modified-since",
        "no-use-server-timestamps",
        "server-response",
        "spider",
        "timeout" = Value,
        "dns-timeout" = Value,
        "connect-timeout" = Value,
        "read-timeout" = Value,
        "wait" = Value,
        "waitretry" = Value,
        "random-wait",
        "no-proxy",
        "quota" = Value,
        "bind-address" = Value,
        "limit-rate" = Value,
        "no-dns-cache",
        "restrict-file-names" = Value,
        "ignore-case",
        "inet4-only",
        "inet6-only",
        "prefer-family" = Value,
        "user" = Value,
        "password" = Value,
        "ask-password",
        "use-askpass" = Value,
        "no-iri",
        "unlink",
        "no-directories",
        "force-directories",
        "no-host-directories",
        "protocol-directories",
        "directory-prefix" = Value,
        "cut-dirs" = Value,
        "default-page" = Value,
        "adjust-extension",
        "http-user" = Value,
        "http-password" = Value,
        "no-cache",
        "ignore-length",
        "header" = Value,
        "compression" = Value,
        "max-redirect" = Value,
        "proxy-user" = Value,
        "proxy-password" = Value,
        "referer" = Value,
        "save-headers",
        "user-agent" = Value,
        "no-http-keep-alive",
        "no-cookies",
        "load-cookies" = Value,
        "save-cookies" = Value,
        "keep-session-cookies",
        "post-data" = Value,
        "post-file" = Value,
        "method" = Value,
        "body-data" = Value,
        "body-file" = Value,
        "content-disposition",
        "content-on-error",
        "trust-server-names",
        "secure-protocol" = Value,
        "https-only",
        "no-check-certificate",
        "certificate" = Value,
        "certificate-type" = Value,
        "private-key" = Value,
        "ca-certificate" = Value,
        "ca-directory" = Value,
        "no-hsts",
        "hsts-file" = Value,
        "warc-file" = Value,
        "recursive",
        "level" = Value,
        "delete-after",
        "convert-links",
        "backups" = Optional,
        "backup-converted",
        "mirror",
        "page-requisites",
        "accept" = Value,
        "reject" = Value,
        "accept-regex" = Value,
        "reject-regex" = Value,
        "domains" = Value,
        "exclude-domains" = Value,
        "follow-tags" = Value,
        "span-hosts",
        "relative",
        "include-directories" = Value,
        "exclude-directories" = Value,
        "no-parent"
    ],
    ..Grammar::NONE
};

pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &WGET);
    if reading.only_informs() || reading.has(&["V", "h"]) {
        return Some(Meaning::default());
    }
    let urls = reading.operands();
    reading.contact_at(&urls, Some(80));
    if reading.has(&["i", "input-file"]) {
        reading.each_value(EffectKind::Read, &["i", "input-file"]);
        reading.add(EffectKind::Connect, On::Unknown(None));
    }
    let outputs = ["O", "output-document", "P", "directory-prefix"];
    reading.each_value(EffectKind::Write, &outputs);
    reading.each_value(
        EffectKind::Write,
        &["o", "output-file", "a", "append-output", "save-cookies", "hsts-file", "warc-file", "rejected-log"],
    );
    reading.each_value(
        EffectKind::Read,
        &["post-file", "body-file", "load-cookies", "certificate", "private-key", "ca-certificate"],
    );
    let somewhere = !urls.is_empty() || reading.has(&["i", "input-file"]);
    if somewhere && !reading.has(&outputs) && !reading.has(&["spider"]) {
        let recursive = reading.has(&["r", "recursive", "m", "mirror", "p", "page-requisites", "x"]);
        let url = urls.first().filter(|_| !recursive).and_then(|url| reading.text(*url));
        reading.add(EffectKind::Write, On::Path(file_of_url(url), urls.first().copied()));
    }
    reading.depart(DepartureKind::Configuration, &["e", "execute", "config"]);
    reading.depart(DepartureKind::Program, &["use-askpass"]);
    reading.doubt();
    reading.done()
}
