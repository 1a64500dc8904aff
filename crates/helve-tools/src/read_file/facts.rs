//! The details of a result. They never repeat the text.

use helve_core::files::{Page, Shape};
use helve_core::harmless::is_harmless;
use schemars::JsonSchema;
use serde::Serialize;

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// Text, up to its end.
    #[default]
    Text,
    /// Text that goes on.
    Truncated,
    /// A picture.
    Image,
    /// A notebook, as text.
    Notebook,
    /// A PDF, as text.
    Pdf,
    /// A file that is described.
    Binary,
    /// Nothing, which was fine.
    NotFound,
}

/// What the details say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Facts {
    pub(super) kind: Kind,
    /// The file's path relative to the workspace.
    pub(super) path: String,
    /// Bytes of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<u64>,
    /// How its bytes were read as text, by the WHATWG standard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) encoding: Option<String>,
    /// Whether it starts with a byte order mark, which the text does not show.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) bom: bool,
    /// How the lines that are shown end, if not all with LF: crlf, or mixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line_endings: Option<&'static str>,
    /// Whether the file's last line, which is shown, has no line ending.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) no_final_newline: bool,
    /// How many characters that control or cannot be seen are shown as escapes.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(super) escaped: usize,
    /// How many characters are shown as U+FFFD, which stands for bytes that are no character.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(super) replaced: usize,
    /// The number of the first line that is shown, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first_line: Option<u64>,
    /// How many lines are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lines: Option<u64>,
    /// How many lines there are, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total_lines: Option<u64>,
    /// Pages of a PDF, cells of a notebook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parts: Option<u64>,
    /// Why the text ends before the file does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) truncation: Option<Truncation>,
    /// The arguments with which to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) continuation: Option<Continuation>,
    /// The media type of what is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mime_type: Option<String>,
    /// The size of a picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) image: Option<ImageFacts>,
    /// Whether the file was allowed to be missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) optional: bool,
}

/// Which bound ended a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bound {
    Lines,
    Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Truncation {
    /// Which bound came first.
    pub(super) truncated_by: Bound,
    /// Bytes of text that are shown.
    pub(super) output_bytes: u64,
    /// Whether the last line is shown in part.
    pub(super) last_line_partial: bool,
    /// The most lines.
    pub(super) max_lines: u64,
    /// The most bytes.
    pub(super) max_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Continuation {
    /// The line; negative if it is counted from the end.
    pub(super) offset: i64,
    /// Characters of it that were shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cursor: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ImageFacts {
    /// Pixels of the file's picture, the way it is meant to be seen.
    pub(super) width: u32,
    pub(super) height: u32,
    /// Pixels of the picture that is given.
    pub(super) shown_width: u32,
    pub(super) shown_height: u32,
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

impl Facts {
    pub(super) fn new(kind: Kind, path: &str) -> Facts {
        Facts { kind, path: path.to_owned(), ..Facts::default() }
    }

    /// The facts of a window.
    pub(super) fn of_text(page: &Page) -> Facts {
        let (encoding, bom) = match &page.shape {
            Shape::Text(encoding) => (Some(encoding.name.clone()), encoding.bom),
            Shape::Binary { .. } => (None, false),
        };
        Facts {
            size: Some(page.stat.len),
            encoding,
            bom,
            line_endings: match (page.endings.crlf, page.endings.lf) {
                (true, true) => Some("mixed"),
                (true, false) => Some("crlf"),
                (false, _) => None,
            },
            no_final_newline: page.endings.open,
            escaped: page.text.chars().filter(|c| !is_harmless(*c)).count(),
            replaced: page.text.chars().filter(|c| *c == '\u{fffd}').count(),
            first_line: page.first_line,
            lines: Some(page.lines),
            total_lines: page.total_lines,
            ..Facts::new(Kind::Text, &page.path)
        }
    }
}
