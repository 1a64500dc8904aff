//! A screen: a page of a document above, a few rows of ours below, perhaps a line that is edited. Every row fits.

use unicode_width::UnicodeWidthStr;

use super::editor::Editor;
use super::page::{Document, Pager};
use super::terminal::Size;
use crate::harmless::one_line;
use crate::{marked, ui};

/// What is drawn.
pub(super) struct Screen {
    pub(super) rows: Vec<String>,
    /// Where the cursor stands, as row and column; nowhere if nothing is edited.
    pub(super) cursor: Option<(usize, usize)>,
    /// How many rows of the document there was room for.
    pub(super) page_height: usize,
    /// How many of the rows are the document's.
    pub(super) page_rows: usize,
}

/// The line between the document and what is ours: where the page is, and a notice.
pub(super) fn rule(position: Option<&str>, notice: Option<&str>) -> Vec<String> {
    let position = position.map(|position| format!("-- {position} --"));
    let mut rows = vec![ui::styled(ui::FAINT, position.as_deref().unwrap_or("----"))];
    rows.extend(notice.map(|notice| ui::styled(ui::CAREFUL, notice)));
    rows
}

/// A page of the document above the rows that `footer` makes of the position and of whether the end has been seen.
pub(super) fn paged(
    document: &Document,
    pager: &mut Pager,
    size: Size,
    footer: impl Fn(Option<&str>, bool) -> Vec<String>,
) -> Screen {
    compose(document, pager, size, footer, None)
}

/// The same with an edited line below.
pub(super) fn with_editor(
    document: &Document,
    pager: &mut Pager,
    size: Size,
    footer: impl Fn(Option<&str>, bool) -> Vec<String>,
    editor: &Editor,
) -> Screen {
    compose(document, pager, size, footer, Some(editor))
}

fn compose(
    document: &Document,
    pager: &mut Pager,
    size: Size,
    footer: impl Fn(Option<&str>, bool) -> Vec<String>,
    editor: Option<&Editor>,
) -> Screen {
    let (rows, _) = document.rows(size.columns);
    // The footer is measured as it would be with and without the end on the screen: the larger decides.
    let measure = |seen| wrapped(footer(Some("lines 1-1 of 1"), seen), size.columns).len();
    let below = measure(true).max(measure(false)) + usize::from(editor.is_some());
    let page_height = size.rows.saturating_sub(below).max(1);
    let page = pager.page(&rows, page_height);
    let mut rows = page.rows;
    let page_rows = rows.len();
    let mut ours = wrapped(footer(page.position.as_deref(), pager.seen_end()), size.columns);
    let edited = editor.map(|editor| edited(editor, size.columns));
    // On a screen of a few rows what is asked about stays, and of what is ours the end.
    let room = size.rows.saturating_sub(rows.len() + usize::from(edited.is_some()));
    ours.drain(..ours.len().saturating_sub(room));
    rows.extend(ours);
    let mut cursor = None;
    if let Some((text, column)) = edited.filter(|_| rows.len() < size.rows) {
        cursor = Some((rows.len(), column));
        rows.push(text);
    }
    Screen { rows, cursor, page_height, page_rows }
}

/// Rows of ours, broken between words where the screen is narrow. A row has one style.
fn wrapped(rows: Vec<String>, columns: usize) -> Vec<String> {
    let mut out = Vec::new();
    for row in rows {
        let text = anstream::adapter::strip_str(&row).to_string();
        if text.width() <= columns {
            out.push(row);
            continue;
        }
        let mut line = String::new();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            if !line.is_empty() && line.width() + 1 + word.width() > columns {
                out.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&one_line(word, columns.max(1)));
        }
        out.push(line);
    }
    out
}

/// The edited line, moved so that the cursor is on the screen, and the cursor's column.
fn edited(editor: &Editor, columns: usize) -> (String, usize) {
    let (before, after) = editor.halves();
    let visible = |text: &str| -> String {
        marked::lines(text, &[]).into_iter().flatten().map(|segment| segment.text).collect()
    };
    let (before, after) = (visible(&before), visible(&after));
    // The prompt, and a column for the cursor at the end.
    let room = columns.saturating_sub(3).max(1);
    let (mut width, mut from) = (0, before.len());
    for (at, ch) in before.char_indices().rev() {
        width += ch.to_string().width_cjk();
        if width > room {
            break;
        }
        from = at;
    }
    let before = &before[from..];
    let mut left = room.saturating_sub(before.width_cjk());
    let mut to = 0;
    for (at, ch) in after.char_indices() {
        let wide = ch.to_string().width_cjk();
        if wide > left {
            break;
        }
        left -= wide;
        to = at + ch.len_utf8();
    }
    (format!("> {before}{}", &after[..to]), 2 + before.width())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    #[test]
    fn the_edited_line_follows_the_cursor() {
        let long = Editor::new("0123456789");
        assert_eq!(edited(&long, 20), ("> 0123456789".to_owned(), 12));
        assert_eq!(edited(&long, 8), ("> 56789".to_owned(), 7));
        assert_eq!(edited(&Editor::new("a\u{202e}"), 20), ("> a\\u{202e}".to_owned(), 11));
    }

    proptest! {
        #[test]
        fn a_screen_never_has_more_than_it_has(
            text in "[a-z漢 \n]{0,200}",
            rows in 1usize..30,
            columns in 12usize..60,
            edits in any::<bool>(),
        ) {
            let mut document = Document::default();
            document.quoted(&text, &[]);
            let mut pager = Pager::default();
            let footer = |position: Option<&str>, _: bool| {
                let mut rows = rule(position, None);
                rows.push("[o]nce  [s]ession  [a]lways  [n]o  [v]iew again".to_owned());
                rows
            };
            let size = Size { rows, columns };
            let editor = Editor::new(&text.replace('\n', " "));
            let screen = match edits {
                true => with_editor(&document, &mut pager, size, footer, &editor),
                false => paged(&document, &mut pager, size, footer),
            };
            prop_assert!(screen.rows.len() <= rows);
            for row in &screen.rows {
                prop_assert!(anstream::adapter::strip_str(row).to_string().width() <= columns, "{row}");
            }
            if let Some((row, column)) = screen.cursor {
                prop_assert!(row < rows && column < columns);
            }
        }
    }
}
