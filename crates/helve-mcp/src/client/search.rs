//! Very many tools: instead of all their schemas a client is shown one tool that finds them.
//!
//! A [`Shelf`] knows what the tools would cost and which of them are shown. While all of them fit into the budget, all are.
//! Else only those are that [`ToolSearch`] has found; a tool that is not shown can be called all the same by its name.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve_core::json_text::length;
use helve_core::{BoxFuture, Context, Output, Tool, ToolError, ToolSpec};
use serde_json::{Value, json};
use tokio::sync::watch;

/// How many tools are shown at most because they were found; the oldest make room.
const MOST_SHOWN: usize = 64;
/// How many one search finds at most.
const MOST_FOUND: u64 = 20;
const FOUND: u64 = 5;

/// The name of the tool that finds tools.
pub const TOOL_SEARCH: &str = "tool_search";

/// Which tools a client is shown.
pub struct Shelf {
    /// Bytes that schemas may cost; beyond, they are searched for.
    budget: usize,
    books: Mutex<Books>,
    version: watch::Sender<u64>,
}

#[derive(Default)]
struct Books {
    specs: Vec<Book>,
    /// Found ones, the latest last.
    found: Vec<String>,
    is_over: bool,
}

/// What is searched.
struct Book {
    name: String,
    description: String,
    schema: Value,
    /// Lower case: the name in words, and everything.
    title: String,
    text: String,
}

impl Shelf {
    /// An empty one.
    pub fn new(budget: usize) -> Arc<Shelf> {
        Arc::new(Shelf { budget, books: Mutex::default(), version: watch::channel(0).0 })
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the tools that there are now.
    pub fn fill<'a>(&self, specs: impl Iterator<Item = &'a ToolSpec>) {
        let specs: Vec<Book> = specs.map(Book::new).collect();
        let cost: usize = specs.iter().map(Book::cost).sum();
        let mut books = self.books();
        let names: BTreeSet<&str> = specs.iter().map(|book| book.name.as_str()).collect();
        books.found.retain(|name| names.contains(name.as_str()));
        books.is_over = cost > self.budget;
        books.specs = specs;
        drop(books);
        self.version.send_modify(|version| *version += 1);
    }

    /// Whether the tools cost more than the budget, so that they are searched for.
    pub fn is_over(&self) -> bool {
        self.books().is_over
    }

    /// Whether a tool is shown. One that is not on the shelf is somebody else's and is.
    pub fn shows(&self, name: &str) -> bool {
        let books = self.books();
        if name == TOOL_SEARCH {
            return books.is_over;
        }
        !books.is_over
            || books.found.iter().any(|found| found == name)
            || !books.specs.iter().any(|book| book.name == name)
    }

    /// Changes when what is shown changes.
    pub fn version(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The best matches of a query, which are shown from now on.
    fn find(&self, query: &str, most: usize) -> Vec<Value> {
        let words: Vec<String> =
            query.to_lowercase().split_whitespace().take(32).map(str::to_owned).collect();
        let mut books = self.books();
        let mut scored: Vec<(u32, &Book)> = books
            .specs
            .iter()
            .map(|book| (book.score(&words), book))
            .filter(|(score, _)| *score > 0)
            .collect();
        scored.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.name.cmp(&other.1.name)));
        scored.truncate(most);
        let found: Vec<Value> = scored
            .iter()
            .map(|(_, book)| json!({"name": book.name, "description": book.description, "parameters": book.schema}))
            .collect();
        let names: Vec<String> = scored.iter().map(|(_, book)| book.name.clone()).collect();
        books.found.retain(|name| !names.contains(name));
        books.found.extend(names);
        let over = books.found.len().saturating_sub(MOST_SHOWN);
        books.found.drain(..over);
        let is_over = books.is_over;
        drop(books);
        if is_over && !found.is_empty() {
            self.version.send_modify(|version| *version += 1);
        }
        found
    }
}

impl Book {
    fn new(spec: &ToolSpec) -> Book {
        let title = format!("{} {}", spec.name, spec.title.as_deref().unwrap_or_default()).to_lowercase();
        let mut text = format!("{title} {}", spec.description.to_lowercase());
        if let Some(properties) = spec.parameters.get("properties").and_then(Value::as_object) {
            for key in properties.keys() {
                text.push(' ');
                text.push_str(&key.to_lowercase());
            }
        }
        Book {
            name: spec.name.clone(),
            description: spec.description.clone(),
            schema: spec.parameters.clone(),
            title,
            text,
        }
    }

    fn cost(&self) -> usize {
        self.name.len() + self.description.len() + length(&self.schema)
    }

    /// How well it fits: each word once, in the name three times as much; its whole name most of all.
    fn score(&self, words: &[String]) -> u32 {
        let one = |word: &String| match () {
            () if self.name.eq_ignore_ascii_case(word) => 100,
            () if self.title.contains(word.as_str()) => 3,
            () if self.text.contains(word.as_str()) => 1,
            () => 0,
        };
        words.iter().map(one).sum()
    }
}

/// The tool that finds tools.
pub struct ToolSearch {
    spec: ToolSpec,
    shelf: Arc<Shelf>,
}

impl ToolSearch {
    /// Searches a shelf.
    pub fn new(shelf: Arc<Shelf>) -> ToolSearch {
        let description = "Find tools by what they do. There are more tools than are listed: this gives the name, the \
            description and the parameters of those that match, and lists them from then on.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": 1000,
                    "description": "Words that the tool's name or description would hold."},
                "limit": {"type": "integer", "minimum": 1, "maximum": MOST_FOUND, "default": FOUND,
                    "description": "How many to find at most."},
            },
            "required": ["query"],
        });
        let output = json!({
            "type": "object",
            "properties": {"tools": {"type": "array", "items": {"type": "object",
                "properties": {"name": {"type": "string"}, "description": {"type": "string"}, "parameters": {}},
                "required": ["name", "description", "parameters"]}}},
            "required": ["tools"],
        });
        let spec = ToolSpec::new(TOOL_SEARCH, description, parameters)
            .title("Find tools")
            .read_only()
            .output_schema(output);
        ToolSearch { spec, shelf }
    }
}

impl Tool for ToolSearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, args: Value, _ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        let query = args.get("query").and_then(Value::as_str).unwrap_or_default();
        let limit = args.get("limit").and_then(Value::as_u64).unwrap_or(FOUND).min(MOST_FOUND);
        let found = self.shelf.find(query, usize::try_from(limit).unwrap_or(usize::MAX));
        let text = match found.is_empty() {
            true => "No tool matches. Try other words.".to_owned(),
            false => found.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"),
        };
        let output = Output::text(text).with_details(json!({ "tools": found }));
        Box::pin(async move { Ok(output) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn specs(count: usize) -> Vec<ToolSpec> {
        let mut specs: Vec<ToolSpec> = (0..count)
            .map(|n| ToolSpec::new(format!("mcp__s__tool_{n}"), "does a thing", json!({"type": "object"})))
            .collect();
        let read = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        specs.push(ToolSpec::new("mcp__files__read", "reads a file", read));
        specs
    }

    #[test]
    fn within_the_budget_everything_is_shown() {
        let shelf = Shelf::new(1 << 20);
        shelf.fill(specs(10).iter());
        assert!(!shelf.is_over() && shelf.shows("mcp__s__tool_3") && shelf.shows("echo"));
        assert!(!shelf.shows(TOOL_SEARCH));
    }

    #[test]
    fn beyond_it_what_is_found_is_shown() {
        let shelf = Shelf::new(100);
        shelf.fill(specs(1000).iter());
        let mut version = shelf.version();
        version.mark_unchanged();
        assert!(shelf.shows(TOOL_SEARCH) && shelf.shows("echo") && !shelf.shows("mcp__files__read"));
        let found = shelf.find("READ path", 3);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["name"], "mcp__files__read");
        assert!(shelf.shows("mcp__files__read") && version.has_changed().unwrap());
        for n in 0..100 {
            assert_eq!(shelf.find(&format!("mcp__s__tool_{n}"), 1)[0]["name"], format!("mcp__s__tool_{n}"));
        }
        assert!(!shelf.shows("mcp__files__read") && shelf.shows("mcp__s__tool_99"));
        assert_eq!(shelf.find("some thing", 3).len(), 3);
        assert_eq!(shelf.find("zzz", 3), Vec::<Value>::new());
    }
}
