//! A window of a file as text.

use serde::{Deserialize, Serialize};

use super::{ContentId, FileStat};

/// Where a window starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageStart {
    /// At a line, counted from 1, and inside it after so many characters (Unicode scalar values).
    Line {
        /// The line.
        line: u64,
        /// Characters of it that are skipped.
        cursor: u64,
    },
    /// So many lines before the end: the file is read from its end.
    FromEnd {
        /// How many lines.
        lines: u64,
    },
}

/// Which window is wanted. It ends at whichever bound comes first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRequest {
    /// The file.
    pub path: String,
    /// Where it starts.
    pub start: PageStart,
    /// At most so many lines.
    pub max_lines: u64,
    /// At most so many bytes of text (UTF-8).
    pub max_bytes: u64,
}

/// How the bytes of a file were read as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Encoding {
    /// The name by the WHATWG standard: `UTF-8`, `UTF-16LE`, `windows-1252`, `GBK`, …
    pub name: String,
    /// Whether the file starts with a byte order mark, which the text does not show.
    pub bom: bool,
}

/// What the first bytes of a file say that it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Text.
    Text(Encoding),
    /// Not text; [`Page::text`] is empty.
    Binary {
        /// A media type by its first bytes, `application/octet-stream` if they say nothing.
        media_type: String,
        /// The first bytes, at most 256.
        head: Vec<u8>,
    },
}

/// Where a window ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageEnd {
    /// At the end of the file.
    End,
    /// Before this line, which the next window starts with.
    Line(u64),
    /// Inside this line.
    Inside {
        /// The line.
        line: u64,
        /// Characters of it up to here.
        cursor: u64,
    },
    /// Before more lines, where lines were counted from the end and their numbers are not known.
    More,
}

/// How the lines of a window end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endings {
    /// Some with `\n` alone.
    pub lf: bool,
    /// Some with `\r\n`.
    pub crlf: bool,
    /// The file's last line, which the window shows, not at all.
    pub open: bool,
}

/// A window of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The file's path relative to the workspace.
    pub path: String,
    /// What is known of it.
    pub stat: FileStat,
    /// What it is.
    pub shape: Shape,
    /// The text of the window, every line ending as `\n`, without the one of the last line.
    pub text: String,
    /// How its lines end.
    #[serde(default)]
    pub endings: Endings,
    /// The number of the window's first line; none where lines were counted from the end of a file too large to count.
    pub first_line: Option<u64>,
    /// How many lines the window holds, a part of one counting as one.
    pub lines: u64,
    /// Where it ended.
    pub end: PageEnd,
    /// How many lines the file has, where that is known without reading further than the window and a bounded rest.
    pub total_lines: Option<u64>,
    /// The hash of the content, where the whole file was read anyway.
    pub id: Option<ContentId>,
}
