//! Which other repositories subcommands of git reach.

use super::{Call, hosts};
use crate::analysis::{Arg, DepartureKind, EffectKind, More, OpaqueReason};
use crate::programs::options::Place;
use crate::programs::{Meaning, On};
use crate::spelling;

/// Where ssh connects to.
const SSH_PORT: u16 = 22;

/// Notes that a repository is reached which the settings name.
pub(super) fn usual(call: &Call<'_>, meaning: &mut Meaning) {
    meaning.departs(DepartureKind::Network, call.at);
    meaning.does(EffectKind::Connect, On::Unknown(Some(call.at)));
}

/// Notes the repository that an operand names, or the usual one where there is none.
pub(super) fn named_or_usual(call: &Call<'_>, meaning: &mut Meaning, at: Option<usize>) {
    match at {
        Some(at) => note(call, meaning, Place { option: at, arg: at, skip: 0 }),
        None => usual(call, meaning),
    }
}

/// Notes a repository that is named: a URL, a path, or the name of a remote.
pub(super) fn note(call: &Call<'_>, meaning: &mut Meaning, place: Place) {
    let at = place.option;
    let Some(text) = place.text(call.args()) else {
        meaning.departs(DepartureKind::Network, at);
        meaning.departs(DepartureKind::Program, at);
        meaning.does(EffectKind::Connect, On::Unknown(Some(at)));
        return;
    };
    if let Some((transport, rest)) = transport(text) {
        // `ext::` runs its text, any other name runs git-remote-NAME.
        meaning.departs(DepartureKind::Program, at);
        match place.value(call.args()) {
            Some(arg) if transport == "ext" => {
                let command = rest.replace("% ", "\u{1}").replace("%%", "%");
                let words = command.split(' ').map(|word| Arg::known(word.replace('\u{1}', " "), arg.span));
                meaning.runs_detached(words.collect(), More::Nothing);
            }
            _ => meaning.hides(OpaqueReason::UnknownProgram, Some(at)),
        }
        return;
    }
    match host(text) {
        Some(host) => {
            meaning.departs(DepartureKind::Network, at);
            if host.starts_with('-') {
                meaning.departs(DepartureKind::Program, at);
            }
            meaning.does(EffectKind::Connect, On::Host(host, Some(place.arg)));
        }
        None if text == "." || text.starts_with(['/', '.', '~']) => meaning.reads(call.on(place)),
        None if text.starts_with("file://") => {
            let path = spelling::file_url(text).map(str::to_owned);
            meaning.reads(path.map_or(On::Unknown(Some(at)), |path| On::Path(path, Some(place.arg))));
        }
        None => {
            meaning.departs(DepartureKind::Network, at);
            meaning.does(EffectKind::Connect, On::Unknown(Some(at)));
        }
    }
}

/// The name of a transport in front of `::`, and what stands behind it.
fn transport(text: &str) -> Option<(&str, &str)> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte))
    };
    text.split_once("::").filter(|(name, _)| is_name(name))
}

/// The host of `scheme://user@host:port/path` or `user@host:path`, which is ssh, with its port.
fn host(url: &str) -> Option<String> {
    if url.contains("://") {
        return hosts::of_url(url);
    }
    hosts::of_remote_path(url).map(|host| hosts::at_port(&host, SSH_PORT))
}

/// `fetch`, `pull` and `push`: their first operand is a repository. So is any other that is a URL, as the value of an
/// option that is not known may stand in front.
pub(super) fn exchanges(call: &Call<'_>, meaning: &mut Meaning) {
    let mut operands = call.operands();
    let first = operands.next();
    let is_named = call.options().any(|given| given.takes == super::values::Takes::Remote);
    if first.is_some() || !is_named {
        named_or_usual(call, meaning, first);
    }
    if call.name == "fetch" && call.has_option("multiple") {
        operands.for_each(|at| named_or_usual(call, meaning, Some(at)));
    } else {
        urls(call, meaning, operands);
    }
}

/// Notes the repositories among operands that are written as URLs.
pub(super) fn urls(call: &Call<'_>, meaning: &mut Meaning, operands: impl Iterator<Item = usize>) {
    let is_url =
        |at: usize| call.text(at).is_some_and(|text| text.contains("://") || transport(text).is_some());
    operands.filter(|at| is_url(*at)).for_each(|at| named_or_usual(call, meaning, Some(at)));
}

/// `clone URL [DIRECTORY]`.
pub(super) fn clone(call: &Call<'_>, meaning: &mut Meaning) {
    meaning.departs(DepartureKind::Change, call.at);
    let mut operands = call.operands();
    let url = operands.next();
    named_or_usual(call, meaning, url);
    match (operands.next(), url.and_then(|at| call.text(at))) {
        (Some(directory), _) => meaning.writes(call.operand(directory)),
        (None, Some(url)) => {
            let name =
                url.trim_end_matches('/').trim_end_matches(".git").rsplit(['/', ':']).next().unwrap_or(url);
            meaning.writes(call.path(name));
        }
        (None, None) => meaning.writes(On::Unknown(Some(call.at))),
    }
}
