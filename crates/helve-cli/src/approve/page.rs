//! Text of any length on a screen of any size: a [`Document`] becomes rows, a [`Pager`] shows some of them and knows whether
//! the last one has been seen. Nothing is ever cut: what does not fit a row goes on in the next.

use anstyle::Style;
use unicode_width::UnicodeWidthChar;

use super::keys::Key;
use crate::harmless::harmless;
use crate::marked::{self, Mark, Stretch};
use crate::ui;

/// The fewest columns that are drawn for; a narrower terminal wraps by itself.
const NARROWEST: usize = 12;

/// What further rows of a sentence stand behind: more than any row of ours begins with.
const SENTENCE_HANG: usize = 4;

/// The column of the values of entries, and what their further rows stand behind.
const ENTRY_HANG: usize = 17;

/// What is shown, independent of the size of the screen.
#[derive(Clone, Debug, Default)]
pub(super) struct Document {
    lines: Vec<Line>,
}

#[derive(Clone, Debug, Default)]
struct Line {
    /// Stands before every row of the line, so that no row can pass for one of ours.
    margin: &'static str,
    /// So many blanks stand before every row but the first, for the same reason.
    hang: usize,
    pieces: Vec<(Style, String)>,
    /// Whether it is broken between words.
    prose: bool,
}

impl Document {
    /// A sentence of ours on one line; what it holds from outside is made harmless.
    pub(super) fn prose(&mut self, style: Style, text: &str) {
        let pieces = vec![(style, on_one_line(text))];
        self.lines.push(Line { margin: "", hang: SENTENCE_HANG, pieces, prose: true });
    }

    /// A name and its value, further rows below the value.
    pub(super) fn entry(&mut self, name: &str, value: &str) {
        let name = format!("  {:15}", on_one_line(name));
        let pieces = vec![(ui::FAINT, name), (Style::new(), on_one_line(value))];
        self.lines.push(Line { margin: "", hang: ENTRY_HANG, pieces, prose: true });
    }

    pub(super) fn gap(&mut self) {
        self.lines.push(Line::default());
    }

    /// Text from outside, every line behind a bar, every character visible.
    pub(super) fn quoted(&mut self, text: &str, marks: &[(Stretch, Mark)]) {
        for segments in marked::lines(text, marks) {
            let pieces = segments.into_iter().map(|segment| (segment.style(), segment.text)).collect();
            self.lines.push(Line { margin: "  | ", hang: 0, pieces, prose: false });
        }
    }

    /// The same rows as another document behind these.
    pub(super) fn append(&mut self, other: Document) {
        self.lines.extend(other.lines);
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// The rows on a screen of this width, and the number of the first row of each line.
    pub(super) fn rows(&self, columns: usize) -> (Vec<String>, Vec<usize>) {
        let columns = columns.max(NARROWEST);
        let (mut rows, mut starts) = (Vec::new(), Vec::with_capacity(self.lines.len()));
        for line in &self.lines {
            starts.push(rows.len());
            line.wrap(columns, &mut rows);
        }
        (rows, starts)
    }
}

impl Line {
    fn wrap(&self, columns: usize, rows: &mut Vec<String>) {
        let characters: Vec<(Style, char)> =
            self.pieces.iter().flat_map(|(style, text)| text.chars().map(move |ch| (*style, ch))).collect();
        let hanging = format!("{}{}", self.margin, " ".repeat(self.hang.min(columns / 2)));
        let mut margin = self.margin;
        let mut rest = characters.as_slice();
        loop {
            let room = columns.saturating_sub(margin.len()).max(2);
            let fits = fitting(rest, room);
            let mut end = fits;
            if self.prose && fits < rest.len() {
                let gap = rest[..fits].iter().rposition(|(_, ch)| *ch == ' ');
                end = gap.map(|at| at + 1).filter(|end| *end > room / 2).unwrap_or(fits);
            }
            rows.push(styled_row(margin, &rest[..end]));
            rest = &rest[end..];
            if rest.is_empty() {
                return;
            }
            margin = &hanging;
        }
    }
}

/// The text with nothing in it that would begin a line or move the cursor.
fn on_one_line(text: &str) -> String {
    harmless(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// How many characters fit, at least one. A character whose width is not certain counts as wide.
fn fitting(characters: &[(Style, char)], room: usize) -> usize {
    let mut used = 0;
    for (at, (_, ch)) in characters.iter().enumerate() {
        used += ch.width_cjk().unwrap_or(2);
        if used > room {
            return at.max(1);
        }
    }
    characters.len()
}

fn styled_row(margin: &str, characters: &[(Style, char)]) -> String {
    let mut row = margin.to_owned();
    for run in characters.chunk_by(|(a, _), (b, _)| a == b) {
        let text: String = run.iter().map(|(_, ch)| ch).collect();
        row.push_str(&ui::styled(run.first().map(|(style, _)| *style).unwrap_or_default(), &text));
    }
    row
}

/// Which rows of a document are on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pager {
    top: usize,
    seen_end: bool,
}

/// Some rows of a document.
pub(super) struct Page {
    pub(super) rows: Vec<String>,
    /// `lines 1–20 of 57`, where not all of them are on the screen.
    pub(super) position: Option<String>,
}

impl Pager {
    /// Whether the last row has been on the screen, or was skipped to.
    pub(super) fn seen_end(self) -> bool {
        self.seen_end
    }

    /// What is on the screen where `height` rows are free. Notes whether that is the end.
    pub(super) fn page(&mut self, rows: &[String], height: usize) -> Page {
        let height = height.max(1);
        self.top = self.top.min(rows.len().saturating_sub(height));
        let end = (self.top + height).min(rows.len());
        self.seen_end |= end == rows.len();
        let position =
            (height < rows.len()).then(|| format!("lines {}-{end} of {}", self.top + 1, rows.len()));
        Page { rows: rows[self.top..end].to_vec(), position }
    }

    /// Whether the key moved it.
    pub(super) fn key(&mut self, key: Key, height: usize) -> bool {
        // One row stays as a bridge for the eye.
        let step = height.saturating_sub(1).max(1);
        match key {
            Key::Char(' ') | Key::Enter | Key::PageDown => self.top = self.top.saturating_add(step),
            Key::Char('b') | Key::PageUp => self.top = self.top.saturating_sub(step),
            Key::Down => self.top = self.top.saturating_add(1),
            Key::Up => self.top = self.top.saturating_sub(1),
            Key::Home | Key::Char('v') => self.top = 0,
            Key::End | Key::Char('q') => self.top = usize::MAX,
            _ => return false,
        }
        true
    }

    /// Brings a row to the top, or as near as the end of the document allows.
    pub(super) fn go_to(&mut self, row: usize) {
        self.top = row;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    fn plain(document: &Document, columns: usize) -> Vec<String> {
        let (rows, _) = document.rows(columns);
        rows.iter().map(|row| anstream::adapter::strip_str(row).to_string()).collect()
    }

    #[test]
    fn every_row_of_a_quotation_is_behind_the_bar() {
        let mut document = Document::default();
        document.prose(Style::new(), "exec wants to run something");
        document.quoted("echo 0123456789\n[o]nce\u{1b}[2J", &[]);
        assert_eq!(
            plain(&document, 16),
            [
                "exec wants to ",
                "    run somethin",
                "    g",
                "  | echo 0123456",
                "  | 789",
                "  | [o]nce\\x1b[2",
                "  | J",
            ]
        );
    }

    #[test]
    fn no_row_of_an_entry_or_a_sentence_can_pass_for_one_of_ours() {
        let mut document = Document::default();
        document.entry("reads", &format!("/{} [o]nce  [n]o\n[o]nce", "x".repeat(40)));
        document.entry(&format!("{}  [o]nce", "k".repeat(60)), "1");
        document.prose(Style::new(), &format!("Asked by rule: {} [o]nce\n  reads nothing", "y".repeat(60)));
        for columns in [20, 60, 80] {
            let rows = plain(&document, columns);
            let ours = ["  reads          ", "  kkk", "Asked by "];
            let (first, further): (Vec<&String>, Vec<&String>) =
                rows.iter().partition(|row| ours.iter().any(|beginning| row.starts_with(beginning)));
            assert_eq!(first.len(), 3, "{columns}: {rows:#?}");
            assert!(further.iter().all(|row| row.starts_with("    ")), "{columns}: {rows:#?}");
        }
        assert!(plain(&document, 200)[0].ends_with("[o]nce  [n]o\\n[o]nce"));
    }

    #[test]
    fn a_pager_shows_every_row_and_says_where_it_is() {
        let rows: Vec<String> = (1..=7).map(|number| number.to_string()).collect();
        let mut pager = Pager::default();
        let page = pager.page(&rows, 3);
        assert_eq!((page.rows, page.position), (rows[..3].to_vec(), Some("lines 1-3 of 7".into())));
        assert!(!pager.seen_end() && pager.key(Key::Char(' '), 3));
        assert_eq!(pager.page(&rows, 3).rows, rows[2..5]);
        assert!(!pager.seen_end() && pager.key(Key::Enter, 3));
        assert_eq!(pager.page(&rows, 3).rows, rows[4..]);
        assert!(pager.seen_end() && pager.key(Key::Char('b'), 3));
        assert_eq!(pager.page(&rows, 3).rows, rows[2..5]);
        assert!(pager.seen_end(), "what was seen stays seen");
        assert!(!pager.key(Key::Char('o'), 3));
        let page = pager.page(&rows, 20);
        assert_eq!((page.rows.len(), page.position), (7, None));
    }

    proptest! {
        #[test]
        fn rows_fit_and_hold_everything(text in "[a-z 漢字é\n]{0,80}", columns in NARROWEST..40) {
            let mut document = Document::default();
            document.quoted(&text, &[]);
            let rows = plain(&document, columns);
            prop_assert!(rows.iter().all(|row| row.width() <= columns && row.starts_with("  | ")));
            let shown: String = rows.iter().map(|row| &row[4..]).collect();
            prop_assert_eq!(shown, text.replace('\n', ""));
        }
    }
}
