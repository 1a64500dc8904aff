//! What is asked for, and how much of it a page holds.

use helve_core::files::{PageRequest, PageStart};
use helve_core::{Limits, Problem, ToolError};

use super::Args;

/// The least that a page holds, however small the context window is.
const LEAST_BYTES: u64 = 4 << 10;

/// A question about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) start: PageStart,
    /// Lines, where the call says how many.
    pub(super) limit: Option<u64>,
    pub(super) max_lines: u64,
    pub(super) max_bytes: u64,
    pub(super) line_numbers: bool,
}

impl Ask {
    pub(super) fn new(args: &Args, window_tokens: Option<u64>, limits: &Limits) -> Result<Ask, ToolError> {
        let offset = args.offset.unwrap_or(1);
        let cursor = args.cursor.unwrap_or(0);
        let start = match u64::try_from(offset) {
            Ok(line) => PageStart::Line { line: line.max(1), cursor },
            Err(_) if cursor > 0 => {
                let problem = Problem::new("/cursor", "0 with a negative offset", cursor.to_string());
                return Err(ToolError::invalid("read_file", vec![problem])
                    .hint("Give the line's number as offset, counted from 1."));
            }
            Err(_) => PageStart::FromEnd { lines: offset.unsigned_abs() },
        };
        let max_bytes = page_bytes(window_tokens, limits);
        let lines = limits.read_lines.max(1);
        let max_lines = lines.max(lines.saturating_mul(max_bytes) / limits.read_bytes.max(1));
        let limit = args.limit.map(|limit| limit.max(1));
        let max_lines = limit.unwrap_or(max_lines);
        Ok(Ask { start, limit, max_lines, max_bytes, line_numbers: args.line_numbers })
    }

    pub(super) fn request(&self, path: &str) -> PageRequest {
        PageRequest {
            path: path.to_owned(),
            start: self.start,
            max_lines: self.max_lines,
            max_bytes: self.max_bytes,
        }
    }
}

/// How many bytes a page holds: a fifth of the context window at four bytes a token.
pub(super) fn page_bytes(window_tokens: Option<u64>, limits: &Limits) -> u64 {
    let most = limits.read_bytes_max.max(1);
    match window_tokens {
        Some(tokens) => (tokens.saturating_mul(4) / 5).max(LEAST_BYTES).min(most),
        None => limits.read_bytes.clamp(1, most),
    }
}
