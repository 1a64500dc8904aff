//! From files and the command line to one set of values, each with the place that it came from.
//!
//! A later layer replaces a value of an earlier one as a whole; rules, hooks and tables of MCP servers add up. Both spellings of a key, `deny_patterns` and
//! `denyPatterns`, mean the same. Every problem of every layer is reported at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use super::document::{self, Node, Raw};
use super::hook;
use super::keys::{self, ANY_PROFILE, ANY_SERVER, ANY_TOOL, ANY_VARIABLE, Key, keys};
use super::model_keys;
use super::server;
use super::suggest::suggestion;
use super::value::{self, Kind, Value};
use crate::file;
use crate::rules::read::{self, Place};

/// The largest configuration file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The name of a workspace's own file.
pub const WORKSPACE_FILE: &str = "helve.toml";

/// A workspace's own file, which may only tighten. Whoever hands it over has made sure that the owner trusts exactly this
/// text; nothing is read from a workspace here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceFile {
    /// Where it lies, for messages.
    pub path: PathBuf,
    /// What is in it: TOML, or JSON if it starts with `{`.
    pub text: String,
}

/// Where the configuration is read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The machine's file; it may be absent.
    pub system: Option<PathBuf>,
    /// The user's file, or the one that stands in for it.
    pub user: Option<PathBuf>,
    /// Whether it is an error that the user's file is absent.
    pub user_required: bool,
    /// `key=value` of the command line, in order.
    pub set: Vec<String>,
    /// The workspace's own file, if the owner trusts it.
    pub workspace: Option<WorkspaceFile>,
}

impl Sources {
    /// `/etc/helve/helve.toml`, and `helve/helve.toml` in the user's configuration directory.
    pub fn standard() -> Self {
        Sources {
            system: Some("/etc/helve/helve.toml".into()),
            user: user_file(|name| std::env::var_os(name).map(PathBuf::from)),
            user_required: false,
            set: Vec::new(),
            workspace: None,
        }
    }
}

/// The user's file, by the variables that say where it is.
pub(crate) fn user_file(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let directory = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(directory.join("helve/helve.toml"))
}

/// Which layer a value came from, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Helve's own default.
    BuiltIn,
    /// The profile that the configuration chose.
    Profile,
    /// The machine's file.
    System,
    /// The user's file.
    User,
    /// `--set`.
    CommandLine,
    /// The workspace's own file, which only tightens.
    Workspace,
}

/// The place that a value came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The layer.
    pub layer: Layer,
    /// The file, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub file: Option<PathBuf>,
    /// The line in it, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

/// A path as text, in which a mark stands for what is not UTF-8.
fn as_text<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(to)
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.layer, &self.file) {
            (Layer::BuiltIn, _) => write!(f, "the built-in default")?,
            (Layer::CommandLine, _) => write!(f, "the command line")?,
            (Layer::Profile, None) => write!(f, "the chosen profile")?,
            (_, Some(file)) => write!(f, "{}", file.display())?,
            (_, None) => write!(f, "the given text")?,
        }
        self.line.map_or(Ok(()), |line| write!(f, " line {line}"))
    }
}

/// What is wrong with a configuration: every problem, one a line, each with what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.join("\n"))]
pub struct ConfigError {
    problems: Vec<String>,
}

impl ConfigError {
    pub(crate) fn one(problem: String) -> Self {
        ConfigError { problems: vec![problem] }
    }

    /// `problems` holds at least one.
    pub(crate) fn all(problems: Vec<String>) -> Self {
        ConfigError { problems }
    }

    /// The problems, each a sentence that names the file, the key and the remedy.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

/// What was set, by the full snake_case name of the key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    values: BTreeMap<String, (Value, Origin)>,
    /// Whose model each key of a model was written for: that of the same place, else of an earlier one.
    models: BTreeMap<&'static str, String>,
    /// The servers that have a table, also one with nothing in it.
    servers: BTreeSet<String>,
}

impl Settings {
    /// The value in force: what was set, else the default of the table.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.written(name).map(|(value, _)| value).or_else(|| {
            let key = keys().iter().find(|key| key.name == name)?;
            key.default.as_ref()
        })
    }

    /// What was set, and where.
    pub(crate) fn written(&self, name: &str) -> Option<(&Value, &Origin)> {
        self.values.get(name).map(|(value, origin)| (value, origin))
    }

    /// Whose model a key of a model was written for; none where no model was named by then.
    pub(crate) fn written_for(&self, name: &str) -> Option<&str> {
        self.models.get(name).map(String::as_str)
    }

    /// The servers that have a table.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(String::as_str)
    }

    /// Sets a value, in place of any that was there.
    pub(crate) fn insert(&mut self, name: &str, value: Value, origin: Origin) {
        self.values.insert(name.to_owned(), (value, origin));
    }

    /// Everything that was set, in the order of the names.
    pub(crate) fn all_written(&self) -> impl Iterator<Item = (&str, &Value, &Origin)> {
        self.values.iter().map(|(name, (value, origin))| (name.as_str(), value, origin))
    }
}

/// Collects layers, weakest first.
pub(crate) struct Collector<'a> {
    home: Option<&'a Path>,
    settings: Settings,
    /// The keys of a model that the place that is read has written so far.
    of_model: Vec<&'static str>,
    problems: Vec<String>,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(home: Option<&'a Path>) -> Self {
        Collector { home, settings: Settings::default(), of_model: Vec::new(), problems: Vec::new() }
    }

    pub(crate) fn finish(self) -> Result<Settings, ConfigError> {
        if self.problems.is_empty() {
            Ok(self.settings)
        } else {
            Err(ConfigError { problems: self.problems })
        }
    }

    /// All layers of `sources`.
    pub(crate) fn sources(&mut self, sources: &Sources) {
        for (path, layer, required) in
            [(&sources.system, Layer::System, false), (&sources.user, Layer::User, sources.user_required)]
        {
            if let Some(path) = path {
                self.file(path, layer, required);
            }
        }
        for assignment in &sources.set {
            let origin = Origin { layer: Layer::CommandLine, file: None, line: None };
            match document::parse_assignment(assignment) {
                Ok(node) => self.walk(&node, &origin, &mut Vec::new()),
                Err(message) => self.problems.push(format!("--set: {message}")),
            }
        }
        self.end_place();
    }

    /// A place is read: what it says of a model is said of the one that is named by now.
    fn end_place(&mut self) {
        let named = match self.settings.get(model_keys::USE) {
            Some(Value::Text(name)) => Some(model_keys::whose(name).to_owned()),
            _ => None,
        };
        for key in self.of_model.drain(..) {
            match &named {
                Some(whose) => self.settings.models.insert(key, whose.clone()),
                None => self.settings.models.remove(key),
            };
        }
    }

    /// A key of a model is about to be written. Who names a second model in one place begins a new one.
    fn notes_model(&mut self, name: &str) {
        let Some(key) = model_keys::BESIDE_MODEL.iter().find(|key| **key == name) else { return };
        if *key == model_keys::USE && self.of_model.contains(key) {
            self.end_place();
        }
        self.of_model.push(key);
    }

    fn file(&mut self, path: &Path, layer: Layer, required: bool) {
        let text = match file::read_or_receive(path, MAX_FILE_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => return,
            Err(error) => {
                self.problems.push(format!("{}: cannot be read: {error}", path.display()));
                return;
            }
        };
        let json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        self.text(&text, json, Origin { layer, file: Some(path.to_owned()), line: None });
    }

    /// The text of one file.
    pub(crate) fn text(&mut self, text: &str, json: bool, origin: Origin) {
        match document::parse(text, json) {
            Ok(node) => {
                self.walk(&node, &origin, &mut Vec::new());
                self.end_place();
            }
            Err(error) => {
                let place = Origin { line: error.line, ..origin };
                self.problems.push(format!("{place}: {}", error.message.trim_end()));
            }
        }
    }

    /// One table: `path` is its canonical name in parts.
    fn walk(&mut self, table: &Node, origin: &Origin, path: &mut Vec<String>) {
        let Raw::Table(entries) = &table.value else { return };
        let mut spellings: BTreeMap<String, &str> = BTreeMap::new();
        for (written, node) in entries {
            let place = Origin { line: node.line, ..origin.clone() };
            let Some(part) = canonical(path, written, node) else {
                let problem = format!(
                    "unknown key `{}` in {place}: {}",
                    join(path, written),
                    suggestion(path, written)
                );
                self.problems.push(problem);
                continue;
            };
            if let Some(other) = spellings.insert(part.clone(), written) {
                let name = join(path, &part);
                self.problems.push(format!(
                    "`{name}` in {place}: written twice, as `{other}` and as `{written}`; keep one"
                ));
                continue;
            }
            path.push(part);
            self.entry(node, &place, path);
            path.pop();
        }
    }

    fn entry(&mut self, node: &Node, place: &Origin, path: &mut Vec<String>) {
        let name = path.join(".");
        let key = keys().iter().find(|key| matches_whole(key, path));
        match (key, &node.value) {
            (_, Raw::Null) => {}
            (Some(key), _) if keys::is_ceiling(&key.name) && place.layer != Layer::System => {
                self.problems.push(format!(
                    "`{name}` in {place}: a ceiling counts only in the machine's file; write a rule of your own instead"
                ));
            }
            (Some(key), _) if key.kind == Kind::Rules => self.rules(&name, node, place),
            (Some(key), _) if key.kind == Kind::Hooks => self.hooks(&name, node, place),
            (Some(key), _) => match value::check(key.kind, node, self.home) {
                Ok(value) => {
                    self.notes_model(&name);
                    let earlier = self.settings.values.remove(&name).map(|(earlier, _)| earlier);
                    let value = server::merge(earlier, value);
                    self.settings.values.insert(name, (value, place.clone()));
                }
                Err(problem) => self.problems.push(format!("`{name}` in {place}: {problem}")),
            },
            (None, Raw::Table(_)) => {
                // A workspace's own file brings no server.
                if let [mcp, servers, server] = path.as_slice()
                    && (mcp.as_str(), servers.as_str()) == ("mcp", "servers")
                    && place.layer != Layer::Workspace
                {
                    self.settings.servers.insert(server.clone());
                }
                self.walk(node, place, path);
            }
            (None, other) => self
                .problems
                .push(format!("`{name}` in {place}: expected a table, received {}", other.describe())),
        }
    }

    /// Rules of all layers add up; other values replace each other.
    fn rules(&mut self, name: &str, node: &Node, place: &Origin) {
        let mut all = match self.settings.values.remove(name) {
            Some((Value::Rules(rules), _)) => rules,
            _ => Vec::new(),
        };
        let before = all.iter().filter(|rule| rule.origin.layer == place.layer).count();
        let (rules, problems) =
            read::list(node, &Place { key: name, origin: place, before, home: self.home });
        all.extend(rules);
        self.problems.extend(problems);
        self.settings.values.insert(name.to_owned(), (Value::Rules(all), place.clone()));
    }

    /// So do hooks: a later layer cannot take one away.
    fn hooks(&mut self, name: &str, node: &Node, place: &Origin) {
        let mut all = match self.settings.values.remove(name) {
            Some((Value::Hooks(hooks), _)) => hooks,
            _ => Vec::new(),
        };
        self.problems.extend(hook::add(&mut all, node, name, place, self.home));
        self.settings.values.insert(name.to_owned(), (Value::Hooks(all), place.clone()));
    }
}

fn join(path: &[String], last: &str) -> String {
    path.iter().map(String::as_str).chain([last]).collect::<Vec<_>>().join(".")
}

/// The snake_case part that `written` stands for below `path`; none if no key goes on like that.
fn canonical(path: &[String], written: &str, node: &Node) -> Option<String> {
    let mut any = None;
    for part in parts_below(path) {
        match part {
            ANY_TOOL | ANY_VARIABLE | ANY_PROFILE | ANY_SERVER => any = Some(part),
            part if part == written || camel(part) == written => return Some(part.to_owned()),
            _ => {}
        }
    }
    let fits = match any? {
        ANY_TOOL | ANY_PROFILE | ANY_SERVER => {
            matches!(node.value, Raw::Table(_) | Raw::Null) && is_plain_name(written)
        }
        _ => value::is_variable_name(written),
    };
    fits.then(|| written.to_owned())
}

/// What may follow `path`, with the wildcards as they stand in the table.
pub(crate) fn parts_below(path: &[String]) -> impl Iterator<Item = &'static str> {
    keys().iter().filter_map(move |key| {
        let mut parts = key.parts();
        path.iter()
            .all(|part| parts.next().is_some_and(|pattern| accepts(pattern, part)))
            .then(|| parts.next())?
    })
}

fn matches_whole(key: &Key, path: &[String]) -> bool {
    let mut parts = key.parts();
    path.iter().all(|part| parts.next().is_some_and(|pattern| accepts(pattern, part)))
        && parts.next().is_none()
}

fn accepts(pattern: &str, part: &str) -> bool {
    pattern == part || keys::is_any(pattern)
}

/// What a name of the owner's may be, as the end of a sentence.
pub(crate) const PLAIN_NAME: &str = "1 to 64 letters, digits, `_` and `-`";

/// Whether the owner may call something so: a server, a profile.
pub fn is_plain_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
}

/// `deny_patterns` as `denyPatterns`.
pub(crate) fn camel(snake: &str) -> String {
    let mut out = String::with_capacity(snake.len());
    for (i, word) in snake.split('_').enumerate() {
        let mut letters = word.chars();
        match letters.next() {
            Some(first) if i > 0 => out.extend(first.to_uppercase()),
            Some(first) => out.push(first),
            None => {}
        }
        out.push_str(letters.as_str());
    }
    out
}
