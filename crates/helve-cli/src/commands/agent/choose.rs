//! From the configuration to a model that can be asked.

use std::path::Path;
use std::sync::Arc;

use helve::Policy;
use helve_agent::model::{Model, ModelError, ModelErrorKind, Price};
use helve_agent::models::{self, Choice, Patience, Secret};

use super::key::{self, Key};
use crate::failure::Failure;

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
    /// Its key and the others that are kept, each with its name. Shorter ones nobody could find in a text.
    pub(crate) secrets: Vec<(String, String)>,
}

/// A shorter key is none that anybody could find in a text.
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
    let secrets = key.into_iter().chain(key::kept(home)?).map(|Key { name, value }| (name, value));
    let secrets = secrets.filter(|(_, value)| value.chars().count() >= KEY_CHARS).collect();
    Ok(Chosen { model, secrets })
}
