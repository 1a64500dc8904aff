//! From the configuration to a model that can be asked.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use helve::Policy;
use helve_agent::model::{Model, ModelError, ModelErrorKind, Price};
use helve_agent::models::{self, Choice, Patience, Secret};

use super::key::{self, Key};
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::ui;

/// What there is to do where no model is configured.
const NO_MODEL: &str = "\
no model is configured. Choose one, here or in the file that `helve config path` names:
  helve agent --model ollama:NAME \"TASK\"                        a model on this machine, without a key
  ANTHROPIC_API_KEY=… helve agent --model anthropic:NAME \"TASK\"  or openai:NAME, gemini:NAME with their keys
  [model] use = \"openai-compatible:NAME\"  base_url = \"http://localhost:8080/v1\"  any other server
`helve demo` shows a whole session and needs none.";

/// A model, and what must not be shown.
pub(crate) struct Chosen {
    pub(crate) model: Arc<dyn Model>,
    /// Its key and the others that are kept, each with its name, but for those that are too short to be hidden.
    pub(crate) secrets: Vec<(String, String)>,
}

/// A shorter key is a word, such as those that stand where a server wants any key at all: to hide it would spoil ordinary text.
const KEY_CHARS: usize = 8;

/// The model that the owner chose. Nothing is asked of it yet.
pub(crate) fn choose(policy: &Policy, workspace: &Path, home: &Path) -> Result<Chosen, Failure> {
    let settings = policy.model();
    let Some(written) = &settings.name else { return Err(Failure::usage(NO_MODEL)) };
    let told = |error: ModelError| {
        let file = match error.kind {
            ModelErrorKind::Key => format!(
                "\nA key can also stand in {}, a line `PROVIDER KEY`, with `chmod 600`; or name a program that gives one \
                 with model.key_command.",
                key::path(home).display()
            ),
            _ => String::new(),
        };
        Failure::usage(format!("{error}{file}"))
    };
    let (provider, name) = models::parse(written).map_err(told)?;
    let key = key::find(&provider, &settings, workspace, home)?;
    let price = settings.price.map(|price| Price::plain(price.input, price.cached, price.output));
    let choice = Choice {
        provider,
        name,
        base_url: settings.base_url,
        key: key.as_ref().map(|key| Secret::new(key.value.clone())),
        context_window: settings.context_window.or_else(|| policy.model_context_window_tokens()),
        max_output: settings.max_output,
        price,
        patience: Patience { idle: settings.idle_timeout, ..Patience::default() },
        ..Choice::default()
    };
    let model = models::model(choice).map_err(told)?;
    let (secrets, short) = by_length(key.into_iter().chain(key::kept(home)?));
    for name in short {
        ui::note(&format!(
            "a key from {} has fewer than {KEY_CHARS} characters and is not hidden where it stands in a text",
            one_line(&name, 120)
        ));
    }
    Ok(Chosen { model, secrets })
}

/// The keys that are hidden, and where those are from that are too short for that.
fn by_length(keys: impl Iterator<Item = Key>) -> (Vec<(String, String)>, BTreeSet<String>) {
    let (long, short): (Vec<Key>, Vec<Key>) = keys.partition(|key| key.value.chars().count() >= KEY_CHARS);
    let long = long.into_iter().map(|Key { name, value }| (name, value)).collect();
    (long, short.into_iter().map(|key| key.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn keys_that_are_too_short_to_be_hidden_are_told() {
        let keys =
            [("A", "sk-long-enough"), ("B", "ollama"), ("model-keys", "1234567"), ("model-keys", "none")];
        let keys = keys.map(|(name, value)| Key { name: name.to_owned(), value: value.to_owned() });
        let (hidden, told) = by_length(keys.into_iter());
        assert_eq!(hidden, [("A".to_owned(), "sk-long-enough".to_owned())]);
        assert_eq!(told.into_iter().collect::<Vec<_>>(), ["B", "model-keys"]);
    }
}
