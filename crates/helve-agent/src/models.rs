//! The models that can be asked: who serves them, how they are chosen, what is known of them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`record`] | a model whose answers come from a record |
//! | [`secret`] | a key that nobody can print |
//!
//! In: a [`Choice`], made by whoever reads the owner's configuration; nothing here reads a file or the environment, but for the
//! record that was chosen. Out: a
//! [`Model`].

pub mod record;
pub mod secret;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::model::{Model, ModelError, ModelErrorKind, Price};

pub use secret::Secret;

/// Who serves models, and what is said of each.
struct Provider {
    name: &'static str,
    /// Where a key is looked for in the environment.
    variables: &'static [&'static str],
}

const PROVIDERS: &[Provider] = &[
    Provider { name: "anthropic", variables: &["ANTHROPIC_API_KEY"] },
    Provider { name: "gemini", variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"] },
    Provider { name: "ollama", variables: &[] },
    Provider { name: "openai", variables: &["OPENAI_API_KEY"] },
    Provider { name: "openai-compatible", variables: &[] },
    Provider { name: "openai-responses", variables: &["OPENAI_API_KEY"] },
    Provider { name: "replay", variables: &[] },
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
    /// The longest silence within an answer.
    pub idle: Duration,
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
    let shown = || helve::harmless::harmless(&text.chars().take(100).collect::<String>());
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
    let message = format!("There is no provider '{}'.", helve::harmless::harmless(&choice.provider));
    Err(ModelError::new(ModelErrorKind::Request, message))
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
