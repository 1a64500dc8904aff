//! The models that can be asked: who serves them, how they are chosen, what is known of them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`record`] | a model whose answers come from a record |
//! | [`secret`] | a key that nobody can print |
//! | `known` | what is known of models: windows, prices |
//! | `served` | a model behind an address: asking, reading, asking again (`retry`) |
//! | `wire` | what the four formats have in common; `chat`, `responses`, `anthropic`, `gemini` are these |
//! | `intake` | bytes of a body to an answer: `sse` reads events, `draft` puts the answer together, `kept` keeps its order |
//! | `fault` | what providers say went wrong |
//!
//! In: a [`Choice`], made by whoever reads the owner's configuration; nothing here reads a file or the environment, but for the
//! record that was chosen. Out: a [`Model`].

mod anthropic;
mod chat;
mod draft;
mod fault;
mod gemini;
mod intake;
mod kept;
mod known;
pub mod record;
mod responses;
mod retry;
pub mod secret;
mod served;
mod sse;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use helve::harmless::harmless;
use serde_json::{Map, Value};
use url::Url;

use self::intake::Intake;
use self::served::Served;
use self::wire::{Manner, Wire};
use crate::model::{Answer, Card, Model, ModelError, ModelErrorKind, Piece, Price};

pub use secret::Secret;

/// Who serves models, and what is said of each.
struct Provider {
    name: &'static str,
    /// Where a key is looked for in the environment.
    variables: &'static [&'static str],
    /// How it is spoken to; none for one that is not behind an address.
    wire: Option<Wire>,
    /// Its own address; none if the owner has to say it.
    base: Option<&'static str>,
    /// Its own address wants a key.
    wants_key: bool,
    /// Its models take pictures, as far as is known.
    pictures: bool,
}

const PROVIDERS: &[Provider] = &[
    Provider {
        name: "anthropic",
        variables: &["ANTHROPIC_API_KEY"],
        wire: Some(Wire::Anthropic),
        base: Some("https://api.anthropic.com/v1"),
        wants_key: true,
        pictures: true,
    },
    Provider {
        name: "gemini",
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        wire: Some(Wire::Gemini),
        base: Some("https://generativelanguage.googleapis.com/v1beta"),
        wants_key: true,
        pictures: true,
    },
    Provider {
        name: "ollama",
        variables: &[],
        wire: Some(Wire::Chat),
        base: Some("http://127.0.0.1:11434/v1"),
        wants_key: false,
        pictures: false,
    },
    Provider {
        name: "openai",
        variables: &["OPENAI_API_KEY"],
        wire: Some(Wire::Chat),
        base: Some("https://api.openai.com/v1"),
        wants_key: true,
        pictures: true,
    },
    Provider {
        name: "openai-compatible",
        variables: &[],
        wire: Some(Wire::Chat),
        base: None,
        wants_key: false,
        pictures: false,
    },
    Provider {
        name: "openai-responses",
        variables: &["OPENAI_API_KEY"],
        wire: Some(Wire::Responses),
        base: Some("https://api.openai.com/v1"),
        wants_key: true,
        pictures: true,
    },
    Provider { name: "replay", variables: &[], wire: None, base: None, wants_key: false, pictures: true },
];

/// Which model, and what the owner says of it.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Who serves it; see [`providers`].
    pub provider: String,
    /// Its name there.
    pub name: String,
    /// Where it is served; none for the provider's own address.
    pub base_url: Option<String>,
    /// The key.
    pub key: Option<Secret>,
    /// How many tokens fit into request and answer together; none for what is known of the model.
    pub context_window: Option<u64>,
    /// The longest answer, in tokens; none for what is known of the model.
    pub max_output: Option<u64>,
    /// What tokens cost; none for what is known of the model.
    pub price: Option<Price>,
    /// Whether it takes pictures; none for what is known of the model.
    pub pictures: Option<bool>,
    /// More members for each request, in the provider's own words (`reasoning_effort`, `thinking`, …).
    pub extra: Map<String, Value>,
    /// How long a provider is waited for.
    pub patience: Patience,
}

/// How long a provider is waited for, and how often it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The longest time within an answer in which nothing of it comes. What only keeps a connection open is nothing, but for
    /// pings of a provider whose answer has begun: its model may think for long without a word.
    pub idle: Duration,
    /// The longest time that one answer may take in all.
    pub whole: Duration,
    /// How often it is asked in all.
    pub tries: u32,
    /// The first pause, if the provider names none; each further one is twice as long.
    pub first_pause: Duration,
    /// All pauses together.
    pub all_pauses: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            idle: Duration::from_secs(300),
            whole: Duration::from_secs(3600),
            tries: 5,
            first_pause: Duration::from_millis(500),
            all_pauses: Duration::from_secs(180),
        }
    }
}

/// The providers that can be named.
pub fn providers() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|provider| provider.name)
}

/// The variables of the environment in which a provider's key is looked for, the first before the others.
pub fn key_variables(provider: &str) -> &'static [&'static str] {
    PROVIDERS.iter().find(|known| known.name == provider).map_or(&[], |known| known.variables)
}

/// Whether a provider's own address wants a key.
pub fn wants_key(provider: &str) -> bool {
    PROVIDERS.iter().any(|known| known.name == provider && known.wants_key)
}

/// Takes `provider:name` apart.
///
/// # Errors
///
/// Where there is no such provider, or no name.
pub fn parse(text: &str) -> Result<(String, String), ModelError> {
    let wrong = |message: String| {
        let all: Vec<&str> = providers().collect();
        ModelError::new(ModelErrorKind::Request, message)
            .hint(format!("Write PROVIDER:NAME, where PROVIDER is one of {}.", all.join(", ")))
    };
    let shown = || harmless(&text.chars().take(100).collect::<String>());
    let Some((provider, name)) = text.split_once(':') else {
        return Err(wrong(format!("'{}' names no provider.", shown())));
    };
    let (provider, name) = (provider.trim(), name.trim());
    if !providers().any(|known| known == provider) {
        return Err(wrong(format!("There is no provider of the name in '{}'.", shown())));
    }
    if name.is_empty() {
        return Err(wrong(format!("'{}' names no model.", shown())));
    }
    Ok((provider.to_owned(), name.to_owned()))
}

/// The model that was chosen. Nothing is asked of it yet.
///
/// # Errors
///
/// Where there is no such provider, no key for one that wants one, or an address that cannot be used.
pub fn model(choice: Choice) -> Result<Arc<dyn Model>, ModelError> {
    if choice.provider == "replay" {
        return record::open(&choice.name);
    }
    let found = PROVIDERS.iter().find(|known| known.name == choice.provider);
    let Some((provider, wire)) = found.and_then(|provider| Some((provider, provider.wire?))) else {
        let message = format!("There is no provider '{}'.", harmless(&choice.provider));
        return Err(ModelError::new(ModelErrorKind::Request, message));
    };
    let key = choice.key.filter(|key| !key.is_empty());
    let hint = key_hint(provider);
    let url = address(provider, wire, choice.base_url.as_deref(), &choice.name)?;
    if key.is_none() && provider.wants_key && choice.base_url.is_none() {
        let message = format!("There is no key for {}.", provider.name);
        return Err(ModelError::new(ModelErrorKind::Key, message).hint(hint));
    }
    let known = known::known(provider.name, &choice.name);
    let context_window = choice.context_window.unwrap_or(known.window).max(1);
    let card = Card {
        provider: provider.name.to_owned(),
        name: choice.name,
        context_window,
        max_output: choice.max_output.unwrap_or(known.output).clamp(1, context_window),
        price: choice
            .price
            .map(|price| Price { written: known::written(provider.name, price.input), ..price })
            .or_else(|| known.price()),
    };
    let manner = Manner {
        card,
        pictures: choice.pictures.unwrap_or(provider.pictures),
        original: url.host_str() == Some("api.openai.com"),
        extra: choice.extra,
    };
    Ok(Arc::new(Served::new(wire, manner, url, key, hint, choice.patience)?))
}

/// How a key is given.
fn key_hint(provider: &Provider) -> String {
    match provider.variables.first() {
        Some(variable) => {
            format!(
                "Give one in the variable {variable} or in the file model-keys, or set model.key_env or model.key_command."
            )
        }
        None => "Give one in the file model-keys, or set model.key_env or model.key_command.".to_owned(),
    }
}

/// Where requests go: the base, and what each format puts behind it. A base that holds that already is taken as it is.
fn address(provider: &Provider, wire: Wire, base: Option<&str>, name: &str) -> Result<Url, ModelError> {
    let wrong = |why: String| {
        ModelError::new(ModelErrorKind::Request, why).hint(
            "Give base_url as https://HOST/v1, or http://127.0.0.1:PORT/v1 for a server on this machine.",
        )
    };
    let Some(base) = base.or(provider.base) else {
        return Err(wrong(format!("{} needs the address of a server.", provider.name)));
    };
    let mut url =
        Url::parse(base.trim()).map_err(|error| wrong(format!("base_url is no address: {error}.")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong("base_url is neither https: nor http:.".into()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("base_url holds a name or a password.".into()));
    }
    let tail: Vec<&str> = match wire {
        Wire::Chat => vec!["chat", "completions"],
        Wire::Responses => vec!["responses"],
        // Anthropic's own libraries take the address without the version.
        Wire::Anthropic if has_version(&url) => vec!["messages"],
        Wire::Anthropic => vec!["v1", "messages"],
        Wire::Gemini => vec!["models"],
    };
    let whole = url.path().trim_end_matches('/').ends_with(&tail.join("/"));
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty();
        if !whole {
            segments.extend(&tail);
        }
        if wire == Wire::Gemini {
            let name = name.strip_prefix("models/").unwrap_or(name);
            segments.push(&format!("{name}:streamGenerateContent"));
        }
    }
    if wire == Wire::Gemini {
        url.query_pairs_mut().append_pair("alt", "sse");
    }
    Ok(url)
}

fn has_version(url: &Url) -> bool {
    let path = url.path().trim_end_matches('/');
    path.ends_with("/v1") || path.ends_with("/messages")
}

/// Reads an answer as if a provider had sent these bytes, in pieces that end where the caller wants: for tests of what a
/// hostile one can do.
///
/// # Errors
///
/// Where a provider's bytes are no answer.
pub fn try_stream(provider: &str, pieces: &[&[u8]]) -> Result<(Answer, Vec<Piece>), ModelError> {
    let wire = PROVIDERS.iter().find(|known| known.name == provider).and_then(|known| known.wire);
    let Some(wire) = wire else {
        return Err(ModelError::new(ModelErrorKind::Request, "There is no such provider."));
    };
    let mut told = Vec::new();
    let mut listener = |piece: Piece| told.push(piece);
    let mut intake = Intake::new(wire, provider, "", &mut listener);
    for piece in pieces {
        intake.push(piece).map_err(|fault| fault.error)?;
    }
    let answer = intake.end("model", std::collections::HashSet::new()).map_err(|fault| fault.error)?;
    Ok((answer, told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_name_is_taken_apart_at_the_first_colon() {
        let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(parse("ollama:qwen3:8b"), pair("ollama", "qwen3:8b"));
        assert_eq!(parse("replay:/a/b.jsonl"), pair("replay", "/a/b.jsonl"));
        for text in ["", "gpt", "nobody:gpt", "openai:", "openai: "] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Request, "{text}");
            assert!(error.to_string().contains("anthropic, gemini"), "{error}");
        }
    }
}
