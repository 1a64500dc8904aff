//! One entry of a list of patterns.

use helve_core::Verdict;
use regex::{Regex, RegexBuilder};

use super::rules::{self, Rule};
use crate::config::suggest::nearest;

/// A built-in rule, or a regular expression of the owner.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    Rule(Rule),
    Regex { source: String, regex: Regex },
}

impl Pattern {
    /// A built-in rule by its name, else an expression that is searched anywhere and in any case. `verdict` is what the
    /// list is for.
    pub(crate) fn anywhere(source: &str, verdict: Verdict) -> Result<Self, String> {
        if let Some(rule) = rules::by_name(source) {
            return Ok(Pattern::Rule(rule));
        }
        let looks_like_a_name = source.strip_prefix("guard.").is_some_and(|rest| {
            !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b == b'.')
        });
        if looks_like_a_name {
            return Err(format!("there is no built-in rule `{source}`: {}", hint(source, verdict)));
        }
        let regex = compile(source, RegexBuilder::new(source).case_insensitive(true))?;
        Ok(Pattern::Regex { source: source.to_owned(), regex })
    }

    /// An expression that has to match the whole of a simple command.
    pub(crate) fn whole(source: &str) -> Result<Self, String> {
        // Alone first: an unbalanced expression such as `a)|(b` would break out of the anchors.
        compile(source, &mut RegexBuilder::new(source))?;
        let anchored = format!(r"\A(?:{source})\z");
        // Newlines that separate commands are gone by now; one inside quotes is an ordinary character.
        let regex = compile(source, RegexBuilder::new(&anchored).dot_matches_new_line(true))?;
        Ok(Pattern::Regex { source: source.to_owned(), regex })
    }

    /// The entry as the owner writes it.
    pub(crate) fn source(&self) -> &str {
        match self {
            Pattern::Rule(rule) => rule.name,
            Pattern::Regex { source, .. } => source,
        }
    }

    /// Whether an expression matches; a built-in rule does not judge plain text.
    pub(super) fn is_match(&self, text: &str) -> bool {
        match self {
            Pattern::Rule(_) => false,
            Pattern::Regex { regex, .. } => regex.is_match(text),
        }
    }
}

/// What a misspelt name was meant to be. Only what differs between the names counts for how near they are.
fn hint(source: &str, verdict: Verdict) -> String {
    let own = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
    let names = rules::names(verdict);
    let written = source.rsplit('.').next().unwrap_or(source);
    let near = nearest(written, names.iter().map(|name| own(name)));
    match names.iter().find(|name| Some(own(name)) == near) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("the rules for this list are `{}`", names.join("`, `")),
    }
}

fn compile(source: &str, builder: &mut RegexBuilder) -> Result<Regex, String> {
    builder.build().map_err(|error| {
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("{source:?} is not a regular expression that runs in linear time: {reason}")
    })
}
