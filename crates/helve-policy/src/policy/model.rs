//! Which model the owner has chosen, how its key is found, and how much a run of the agent may use.

use std::time::Duration;

use super::{Policy, list, text};
use crate::config::model_keys as keys;
use crate::config::value::Value;
use crate::secrets::Secret;

/// The variables in which people keep keys of models. Which of them belongs to the model that is asked is for whoever asks.
const KEY_VARIABLES: &[&str] = &["ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY"];

/// A shorter value is what people write where a server wants any key, and hiding it would spoil ordinary text.
const KEY_CHARS: usize = 8;

/// What the owner says of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSettings {
    /// The model, as `provider:name`.
    pub name: Option<String>,
    /// The provider's address, where it is another than usual.
    pub base_url: Option<String>,
    /// The variable that holds the key, where it is another than usual.
    pub key_env: Option<String>,
    /// A program whose first line of output is the key; empty for none.
    pub key_command: Vec<String>,
    /// Whether it was said beside a model of this provider where the key is, and not of no model at all.
    pub key_is_its_own: bool,
    /// How many tokens fit into request and answer together.
    pub context_window: Option<u64>,
    /// The longest answer, in tokens.
    pub max_output: Option<u64>,
    /// How it samples.
    pub temperature: Option<f64>,
    /// The longest silence within an answer.
    pub idle_timeout: Duration,
    /// What tokens cost.
    pub price: Option<ModelPrice>,
}

/// What a million tokens cost, in millionths of a US dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelPrice {
    /// Of requests.
    pub input: u64,
    /// Of what the provider had in its cache.
    pub cached: u64,
    /// Of answers.
    pub output: u64,
}

/// How much a run of the agent may use, and which tools it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSettings {
    /// So many times is the model asked.
    pub rounds: u64,
    /// So long may it take.
    pub time: Option<Duration>,
    /// So many tokens.
    pub tokens: Option<u64>,
    /// So much may it cost, in millionths of a US dollar.
    pub cost: Option<u64>,
    /// The tools that the model is shown: `readonly`, `coding` or `full`.
    pub toolset: String,
}

impl AgentSettings {
    /// The bounds for people and models: a name, how much, and what happens at it.
    pub fn rows(&self) -> Vec<(&'static str, String, &'static str)> {
        const LAST: &str = "the model is asked for a last message, and the run ends";
        let none = || "no limit".to_owned();
        vec![
            (keys::ROUNDS, format!("{} rounds", self.rounds), LAST),
            (keys::TIME, self.time.map_or_else(none, |time| format!("{} seconds", time.as_secs())), LAST),
            (keys::TOKENS, self.tokens.map_or_else(none, |tokens| format!("{tokens} tokens")), LAST),
            (
                keys::COST,
                self.cost
                    .map_or_else(none, |cost| format!("{} US dollars", crate::config::value::decimal(cost))),
                "the run ends and says so",
            ),
        ]
    }
}

impl Policy {
    /// The model that the owner has chosen.
    pub fn model(&self) -> ModelSettings {
        let settings = &self.inner.settings;
        let name = text(settings, keys::USE).map(str::to_owned);
        // What was written for the model of one provider is not sent to another.
        let whose = name.as_deref().map(keys::whose);
        let holds = |key: &&str| match (settings.written_for(key), whose) {
            (Some(other), Some(whose)) => other == whose,
            _ => true,
        };
        let held = |key| Some(key).filter(holds);
        let owned = |key| held(key).and_then(|key| text(settings, key)).map(str::to_owned);
        let number = |key| held(key).and_then(|key| self.number(key));
        let price = |key| held(key).and_then(|key| self.millionths(key));
        let input = price(keys::PRICE_INPUT);
        let first = input.or_else(|| price(keys::PRICE_OUTPUT)).or_else(|| price(keys::PRICE_CACHED));
        ModelSettings {
            base_url: owned(keys::BASE_URL),
            key_env: owned(keys::KEY_ENV),
            key_command: held(keys::KEY_COMMAND).map_or_else(Vec::new, |key| list(settings, key).to_vec()),
            key_is_its_own: [keys::KEY_COMMAND, keys::KEY_ENV]
                .into_iter()
                .find(|key| holds(key) && settings.written(key).is_some())
                .is_some_and(|key| settings.written_for(key) == whose),
            context_window: number(keys::CONTEXT_WINDOW),
            max_output: number(keys::MAX_OUTPUT),
            temperature: self.millionths(keys::TEMPERATURE).map(|number| number as f64 / 1e6),
            idle_timeout: Duration::from_secs(self.number(keys::IDLE_TIMEOUT).unwrap_or(keys::DEFAULT_IDLE)),
            // Where one is written the others are not guessed to be nothing.
            price: first.map(|first| {
                let input = input.unwrap_or(first);
                ModelPrice {
                    input,
                    cached: price(keys::PRICE_CACHED).unwrap_or(input),
                    output: price(keys::PRICE_OUTPUT).unwrap_or(input),
                }
            }),
            name,
        }
    }

    /// How much a run of the agent may use.
    pub fn agent(&self) -> AgentSettings {
        AgentSettings {
            rounds: self.number(keys::ROUNDS).unwrap_or(keys::DEFAULT_ROUNDS),
            time: self.number(keys::TIME).map(Duration::from_secs),
            tokens: self.number(keys::TOKENS),
            cost: self.millionths(keys::COST),
            toolset: text(&self.inner.settings, keys::TOOLSET).unwrap_or("full").to_owned(),
        }
    }

    /// Keys of models that are in the environment: no call may show one, whichever model is asked.
    pub(super) fn model_secrets(&self) -> Vec<Secret> {
        let mut names: Vec<String> =
            text(&self.inner.settings, keys::KEY_ENV).into_iter().map(str::to_owned).collect();
        for variable in KEY_VARIABLES {
            if !names.iter().any(|name| name == variable) {
                names.push((*variable).to_owned());
            }
        }
        let value = |name: String| {
            let value = self.inner.around.variables.get(&name)?.clone();
            (value.chars().count() >= KEY_CHARS).then_some(Secret { name, value })
        };
        names.into_iter().filter_map(value).collect()
    }

    fn number(&self, key: &str) -> Option<u64> {
        match self.inner.settings.get(key) {
            Some(Value::Count(number)) => Some(*number),
            _ => None,
        }
    }

    fn millionths(&self, key: &str) -> Option<u64> {
        match self.inner.settings.get(key) {
            Some(Value::Millionths(number)) => Some(*number),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::layers::{Sources, WorkspaceFile};
    use pretty_assertions::assert_eq;

    fn problem(text: &str) -> String {
        Policy::from_toml(text).unwrap_err().to_string()
    }

    #[test]
    fn a_model_is_read_with_all_that_belongs_to_it() {
        let text = "[model]\nuse = 'openai:x/y:z'\nbase_url = 'http://127.0.0.1:8080/v1'\nkey_env = 'MY_KEY'\n\
                    key_command = ['/usr/bin/pass', 'show']\ncontext_window = 32768\nmax_output = 4096\n\
                    temperature = 0.2\nidle_timeout = 30\nprice_input = 3\nprice_output = 15.5\n\
                    [agent]\nrounds = 7\ntime = 60\ntokens = 1000\ncost = 0.25\ntoolset = 'readonly'";
        let policy = Policy::from_toml(text).unwrap();
        let expected = ModelSettings {
            name: Some("openai:x/y:z".into()),
            base_url: Some("http://127.0.0.1:8080/v1".into()),
            key_env: Some("MY_KEY".into()),
            key_command: vec!["/usr/bin/pass".into(), "show".into()],
            key_is_its_own: true,
            context_window: Some(32768),
            max_output: Some(4096),
            temperature: Some(0.2),
            idle_timeout: Duration::from_secs(30),
            price: Some(ModelPrice { input: 3_000_000, cached: 3_000_000, output: 15_500_000 }),
        };
        assert_eq!(policy.model(), expected);
        let agent = policy.agent();
        let expected = AgentSettings {
            rounds: 7,
            time: Some(Duration::from_secs(60)),
            tokens: Some(1000),
            cost: Some(250_000),
            toolset: "readonly".into(),
        };
        assert_eq!(agent, expected);
        assert_eq!(agent.rows()[3].1, "0.25 US dollars");
        assert_eq!(policy.model_context_window_tokens(), Some(32768));
        let shown =
            |key: &str| policy.explain().into_iter().find(|setting| setting.key == key).unwrap().toml();
        assert_eq!(shown("model.temperature").as_deref(), Some("0.2"));
        assert_eq!(shown("model.price_input").as_deref(), Some("3"));
    }

    #[test]
    fn nothing_is_chosen_by_itself() {
        let policy = Policy::builtin();
        let model = policy.model();
        assert_eq!((model.name, model.base_url, model.key_env, model.price), (None, None, None, None));
        assert_eq!(model.idle_timeout, Duration::from_secs(300));
        let agent = policy.agent();
        assert_eq!((agent.rounds, agent.time, agent.tokens, agent.cost), (100, None, None, None));
        assert_eq!(agent.rows()[0].1, "100 rounds");
    }

    #[test]
    fn an_address_that_is_none_is_refused_without_an_example_of_something_else() {
        for (url, part) in [
            ("ftp://e", "neither `https` nor `http`"),
            ("https://u:p@e", "`key_env` of a model"),
            ("http://example.com", "may only lead to this machine"),
        ] {
            let error = Policy::from_toml(&format!("model.base_url = '{url}'")).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("mcp"), "{error}");
        }
    }

    /// A key goes to nobody but the provider that it was written for, and to no address that was written for another.
    #[test]
    fn what_stands_beside_one_model_is_not_taken_for_that_of_another_provider() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let settings = |text: &str, set: &str| {
            std::fs::write(file.path(), text).unwrap();
            let set = set.split_terminator(';').map(str::to_owned).collect();
            let user = Some(file.path().to_owned());
            Policy::load(&Sources { user, set, ..Sources::default() }).unwrap()
        };
        let own = "[model]\nuse = 'openai:a'\nbase_url = 'https://a.example/v1'\nkey_env = 'K'\n\
                   key_command = ['/bin/k']\ncontext_window = 4096\nmax_output = 512\nprice_input = 1";
        let loose = "[model]\nbase_url = 'https://a.example/v1'\nkey_env = 'K'\nkey_command = ['/bin/k']\n\
                     context_window = 4096\nmax_output = 512\nprice_input = 1";
        let add = |first: &str| format!("model.base_url=https://b.example;model.key_env=B;{first}");
        for (file, set, holds) in [
            (own, "", Some("https://a.example/v1")),
            (own, "model.use=openai:b", Some("https://a.example/v1")),
            (own, "model.use=openai-responses:b", Some("https://a.example/v1")),
            (own, "model.use=anthropic:b", None),
            (own, "model.use=ollama:b", None),
            (own, "model.use=openai-compatible:b", None),
            (own, "model.use=anthropic:b;model.use=openai:c", Some("https://a.example/v1")),
            // Where no model is named they are meant for whichever is.
            (loose, "model.use=anthropic:b", Some("https://a.example/v1")),
            (loose, "model.use=anthropic:b;model.use=openai:c", Some("https://a.example/v1")),
            // What is said in one place belongs together, in any order.
            (own, &add("model.use=anthropic:b"), Some("https://b.example")),
            (own, "model.use=anthropic:b;model.base_url=https://b.example", Some("https://b.example")),
            // A second model in the same place begins anew.
            (own, &add("model.use=anthropic:b;model.use=gemini:c"), None),
            ("", &add("model.use=anthropic:b;model.use=gemini:c"), None),
        ] {
            let policy = settings(file, set);
            let model = policy.model();
            assert_eq!(model.base_url.as_deref(), holds, "{set}");
            let here = holds == Some("https://a.example/v1");
            assert_eq!(model.key_command.is_empty(), !here, "{set}");
            assert_eq!(model.price.is_some(), here, "{set}");
            assert_eq!((model.context_window.is_some(), model.max_output.is_some()), (here, here), "{set}");
            assert_eq!(policy.model_context_window_tokens(), model.context_window, "{set}");
            // It stays guarded all the same.
            let program = std::path::Path::new("/bin/k");
            let guarded = policy.guarded_files().iter().any(|file| *file == *program);
            assert_eq!(guarded, !file.is_empty(), "{set}");
        }
        for (file, set, own_key) in [
            (own, "model.use=openai:b", true),
            (own, "model.use=ollama:b", false),
            (loose, "model.use=ollama:b", false),
            ("", "model.use=ollama:b;model.key_env=B", true),
            // The program goes before the variable, and was written for nobody.
            (loose, "model.use=ollama:b;model.key_env=B", false),
        ] {
            assert_eq!(settings(file, set).model().key_is_its_own, own_key, "{set}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("model.use = 'gpt'", "provider:name"),
            ("model.use = ':x'", "provider:name"),
            ("model.use = 'openai:'", "provider:name"),
            ("model.base_url = 'http://example.com'", "this machine"),
            ("model.temperature = 3", "from 0 to 2"),
            ("model.temperature = -0.5", "from 0 to 2"),
            ("model.price_input = 'much'", "a number"),
            ("model.price_input = nan", "a number"),
            ("model.key_command = ['pass']", "absolute path"),
            ("model.key = 'x'", "unknown key"),
            ("agent.rounds = 0", "1 or more"),
            ("agent.toolset = 'all'", "\"readonly\" or \"coding\" or \"full\""),
        ] {
            assert!(problem(text).contains(part), "{text}: {}", problem(text));
        }
    }

    /// What lies in a workspace must not choose where the owner's words and keys go.
    #[test]
    fn a_workspace_names_no_model_and_only_lowers_bounds() {
        let load = |own: &str, workspace: &str| {
            let workspace = WorkspaceFile { path: "/w/helve.toml".into(), text: workspace.to_owned() };
            let set = own.split_terminator(';').map(str::to_owned).collect();
            Policy::load(&Sources { set, workspace: Some(workspace), ..Sources::default() })
        };
        for text in [
            "model.use = 'openai:x'",
            "model.base_url = 'https://example.com'",
            "model.key_env = 'AWS_SECRET'",
            "model.key_command = ['/bin/sh']",
            "model.context_window = 2048",
            "model.temperature = 0",
            "model.price_input = 0",
        ] {
            let error = load("model.use=openai:x", text).unwrap_err().to_string();
            assert!(error.contains("cannot choose a model, an address or a key"), "{text}: {error}");
        }
        let lower = "[agent]\nrounds = 5\ntime = 9\ntokens = 10\ncost = 0.5\ntoolset = 'readonly'";
        let agent = load("agent.time=100;agent.cost=2;agent.toolset=coding", lower).unwrap().agent();
        assert_eq!((agent.rounds, agent.time, agent.tokens), (5, Some(Duration::from_secs(9)), Some(10)));
        assert_eq!((agent.cost, agent.toolset.as_str()), (Some(500_000), "readonly"));
        let more = "[agent]\nrounds = 500\ntime = 900\ncost = 5\ntoolset = 'full'";
        let agent = load("agent.time=100;agent.cost=2;agent.toolset=coding", more).unwrap().agent();
        assert_eq!((agent.rounds, agent.time), (100, Some(Duration::from_secs(100))));
        assert_eq!((agent.cost, agent.toolset.as_str()), (Some(2_000_000), "coding"));
    }

    /// Whoever can change the program could read the key, or give another.
    #[test]
    fn the_program_that_gives_the_key_is_guarded() {
        let policy = Policy::from_toml("model.key_command = ['/opt/x/key', '--from=/opt/y/store']").unwrap();
        assert_eq!(policy.guarded_files(), ["/opt/x/key", "/opt/y/store"].map(std::path::PathBuf::from));
    }
}
