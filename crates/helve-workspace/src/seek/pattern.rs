//! The pattern of a search, compiled: by an engine that is linear in what it reads, whatever the pattern.

use grep_regex::{ErrorKind as Wrong, RegexMatcher, RegexMatcherBuilder};
use helve_core::files::{CaseMode, SearchRequest};
use helve_core::limits::fixed::GREP_COMPILED;
use helve_core::{ErrorKind, ToolError};

/// How deep its groups may nest.
const NESTING: u32 = 128;

pub(super) fn compile(request: &SearchRequest) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .unicode(true)
        .octal(false)
        .fixed_strings(request.literal)
        .word(request.word)
        .case_insensitive(request.case == CaseMode::Insensitive)
        .case_smart(request.case == CaseMode::Smart)
        .dot_matches_new_line(request.multiline)
        .size_limit(GREP_COMPILED)
        .dfa_size_limit(GREP_COMPILED)
        .nest_limit(NESTING)
        // `$` stands before both ends that a line may have.
        .crlf(true);
    if request.multiline {
        builder.line_terminator(None);
    }
    builder.build(&request.pattern).map_err(|error| {
        let (message, hint) = match error.kind() {
            Wrong::NotAllowed(_) => (
                "The pattern has a line break in it, and a line has none.".to_owned(),
                "Set multiline: true to match over several lines.",
            ),
            _ => (
                format!("The pattern is not a regular expression that can be used: {error}"),
                "Set literal: true to search for the text as it is, or escape \\ . + * ? ( ) [ ] { } | ^ $ with a backslash. \
                 Look-around and back-references are not available.",
            ),
        };
        ToolError::new(ErrorKind::InvalidParams, message).hint(hint)
    })
}
