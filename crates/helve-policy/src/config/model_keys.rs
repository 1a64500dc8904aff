//! The keys of `[model]` and `[agent]`: who answers `helve agent` and `helve chat`, and how much a run may use.
//!
//! A workspace's own file can say nothing of the first and only lower the second: what lies in a workspace must not choose
//! where the owner's words and keys are sent.

use std::borrow::Cow;

use super::keys::Key;
use super::value::{Kind, Value};

/// What the keys of the model begin with.
pub(crate) const MODEL: &str = "model.";
pub(crate) const USE: &str = "model.use";
pub(crate) const BASE_URL: &str = "model.base_url";
pub(crate) const KEY_ENV: &str = "model.key_env";
pub(crate) const KEY_COMMAND: &str = "model.key_command";
pub(crate) const CONTEXT_WINDOW: &str = "model.context_window";
pub(crate) const MAX_OUTPUT: &str = "model.max_output";
pub(crate) const TEMPERATURE: &str = "model.temperature";
pub(crate) const IDLE_TIMEOUT: &str = "model.idle_timeout";
pub(crate) const PRICE_INPUT: &str = "model.price_input";
pub(crate) const PRICE_CACHED: &str = "model.price_cached";
pub(crate) const PRICE_OUTPUT: &str = "model.price_output";

/// What is true of one provider's models alone: it goes to no other's. How the owner wants to be answered
/// (`temperature`, `idle_timeout`) is true of all.
pub(crate) const BESIDE_MODEL: &[&str] = &[
    USE,
    BASE_URL,
    KEY_ENV,
    KEY_COMMAND,
    CONTEXT_WINDOW,
    MAX_OUTPUT,
    PRICE_INPUT,
    PRICE_CACHED,
    PRICE_OUTPUT,
];

/// Whose model a `provider:name` is. OpenAI's are spoken to in two ways, with one key.
pub(crate) fn whose(model: &str) -> &str {
    match model.split(':').next().unwrap_or_default().trim() {
        "openai-responses" => "openai",
        provider => provider,
    }
}

pub(crate) const ROUNDS: &str = "agent.rounds";
pub(crate) const TIME: &str = "agent.time";
pub(crate) const TOKENS: &str = "agent.tokens";
pub(crate) const COST: &str = "agent.cost";
pub(crate) const TOOLSET: &str = "agent.toolset";

/// How many times a model is asked in one run, where nobody says.
pub(crate) const DEFAULT_ROUNDS: u64 = 100;

/// How long a silent provider is waited for, in seconds, where nobody says.
pub(crate) const DEFAULT_IDLE: u64 = 300;

/// The toolsets, the narrowest first.
pub(crate) const TOOLSETS: &[&str] = &["readonly", "coding", "full"];

/// The highest temperature that a provider takes, and the highest price and bound in US dollars.
const MAX_TEMPERATURE: u64 = 2;
const MAX_DOLLARS: u64 = 1_000_000;

/// All of them, in the order of the manual.
pub(crate) fn keys() -> Vec<Key> {
    let key =
        |name, kind, default, doc| Key { name: Cow::Borrowed(name), kind, doc: Cow::Borrowed(doc), default };
    let dollars = Kind::Decimal(MAX_DOLLARS);
    vec![
        key(
            USE,
            Kind::ModelName,
            None,
            "The model that `helve agent` and `helve chat` ask, as \"provider:name\": openai, openai-responses, anthropic, gemini, ollama, or openai-compatible for any other server that speaks as OpenAI's does; replay:FILE plays a record. Not set: none, and --model names one. As all of [model], not in a workspace's own file. Address, key, window and prices hold for the provider that is named beside them: with --model of another provider they do not count, and where none is named they hold for all.",
        ),
        key(
            BASE_URL,
            Kind::Url,
            None,
            "The address of the provider's interface, such as \"http://localhost:8080/v1\": `https:`, or `http:` to this machine. Not set: the provider's own.",
        ),
        key(
            KEY_ENV,
            Kind::VariableName,
            None,
            "The variable that holds the key. Not set: OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, by the provider. Where it is not set either, the key is looked for in the file model-keys of the state directory, a line `provider key` each, which nobody else may read.",
        ),
        key(
            KEY_COMMAND,
            Kind::Program,
            None,
            "A program whose first line of output is the key, such as one that asks a password manager. Goes before key_env. Must not lie in a workspace. Not set: none.",
        ),
        key(
            CONTEXT_WINDOW,
            Kind::AtLeast(1024),
            None,
            "How many tokens fit into the model's request and answer together. Not set: what is known of the model, else model_context_window_tokens.",
        ),
        key(
            MAX_OUTPUT,
            Kind::AtLeast(16),
            None,
            "The longest answer, in tokens. Not set: what is known of the model.",
        ),
        key(
            TEMPERATURE,
            Kind::Decimal(MAX_TEMPERATURE),
            None,
            "How freely the model samples, from 0 on. Not set: the model's own way.",
        ),
        key(
            IDLE_TIMEOUT,
            Kind::Seconds,
            Some(Value::Count(DEFAULT_IDLE)),
            "The longest silence within an answer. At the limit: the connection counts as broken, and the model is asked again, a few times.",
        ),
        key(
            PRICE_INPUT,
            dollars,
            None,
            "What a million tokens of requests cost, in US dollars. Not set: what is known of the model; where nothing is, costs are not counted.",
        ),
        key(
            PRICE_CACHED,
            dollars,
            None,
            "The same for tokens that the provider has in its cache. Not set: as price_input.",
        ),
        key(PRICE_OUTPUT, dollars, None, "The same for tokens of answers. Not set: as price_input."),
        key(
            ROUNDS,
            Kind::AtLeast(1),
            Some(Value::Count(DEFAULT_ROUNDS)),
            "How many times the model is asked in one run of the agent. At the limit: it is asked for a last message, and the run ends.",
        ),
        key(
            TIME,
            Kind::Seconds,
            None,
            "How long one run may take, without the time in which a person is asked. At the limit: as for rounds. Not set: as long as it takes.",
        ),
        key(
            TOKENS,
            Kind::AtLeast(1),
            None,
            "How many tokens one run may use, requests and answers together. At the limit: as for rounds. Not set: no limit.",
        ),
        key(
            COST,
            dollars,
            None,
            "How much one run may cost, in US dollars; counts only where prices are known. At the limit: the run ends and says so. Not set: no limit.",
        ),
        key(
            TOOLSET,
            Kind::Choice(TOOLSETS),
            Some(Value::Text("full".to_owned())),
            "Which tools the model is shown. readonly: those that change nothing. coding: Helve's own for files and commands. full: all, those of MCP servers included.",
        ),
    ]
}
