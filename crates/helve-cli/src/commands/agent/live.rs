//! What goes on right now, on one line at the end of the screen: a mark that turns, what runs, for how long, and the last line
//! that it put out. Only on a terminal that can take a line away again.

use std::time::Instant;

use unicode_width::UnicodeWidthChar as _;

use crate::harmless::one_line;
use crate::{moment, ui};

const TURNS: [char; 4] = ['|', '/', '-', '\\'];
/// So much of the last line is kept.
const TAIL_CHARS: usize = 400;

/// The line at the end of the screen.
pub(super) struct Live {
    on: bool,
    /// What runs, since when; none if nothing does.
    running: Option<(String, Instant)>,
    /// The last line of output, and whether the next piece goes on with it.
    tail: String,
    open: bool,
    turn: usize,
    /// What the owner is typing.
    typed: String,
}

impl Live {
    pub(super) fn new(on: bool) -> Live {
        Live { on, running: None, tail: String::new(), open: false, turn: 0, typed: String::new() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// Something begins.
    pub(super) fn start(&mut self, label: &str) {
        self.running = Some((label.to_owned(), Instant::now()));
        (self.tail, self.open) = (String::new(), false);
        self.draw();
    }

    /// The same goes on under another name.
    pub(super) fn label(&mut self, label: &str) {
        match &mut self.running {
            Some((old, _)) => label.clone_into(old),
            None => self.start(label),
        }
    }

    /// It puts something out: the last line with something in it is shown.
    pub(super) fn output(&mut self, text: &str) {
        for line in text.split_inclusive('\n') {
            if !self.open && !line.trim().is_empty() {
                self.tail.clear();
            }
            let left = TAIL_CHARS.saturating_sub(self.tail.chars().count());
            self.tail.extend(line.chars().take(left));
            self.open = !line.ends_with('\n') && !self.tail.trim().is_empty();
        }
    }

    /// The owner types something.
    pub(super) fn typed(&mut self, text: &str) {
        text.clone_into(&mut self.typed);
    }

    /// The words of the model come in its place.
    pub(super) fn hide(&mut self) {
        if self.on {
            ui::status("");
        }
    }

    /// Nothing goes on any more.
    pub(super) fn stop(&mut self) {
        self.running = None;
        self.hide();
    }

    pub(super) fn draw(&mut self) {
        if !self.on {
            return;
        }
        self.turn = self.turn.wrapping_add(1);
        let columns = ui::stderr_columns().unwrap_or(80);
        if let Some(line) = self.line(columns) {
            ui::status(&line);
        }
    }

    /// The line, shorter than a row.
    fn line(&self, columns: usize) -> Option<String> {
        let (label, since) = self.running.as_ref()?;
        let elapsed = since.elapsed();
        let time = match elapsed.as_secs() {
            0 => String::new(),
            1..60 => format!("  {} s", elapsed.as_secs()),
            _ => {
                format!("  {}", moment::show_duration(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)))
            }
        };
        let tail = one_line(&self.tail, TAIL_CHARS);
        let gap = if tail.is_empty() { "" } else { "  " };
        let turn = TURNS[self.turn % TURNS.len()];
        if !self.typed.is_empty() {
            // The end of it is where the cursor is.
            let line = format!("{turn} > {}", one_line(&self.typed, usize::MAX));
            return Some(fit_end(&line, columns.saturating_sub(1)));
        }
        let line = format!("{turn} {}{time}{gap}{tail}", one_line(label, 60));
        Some(fit(&line, columns.saturating_sub(1)))
    }
}

/// The same from the end of the text.
fn fit_end(text: &str, columns: usize) -> String {
    let backwards: String = text.chars().rev().collect();
    fit(&backwards, columns).chars().rev().collect()
}

/// As much of the text as fits into so many columns.
fn fit(text: &str, columns: usize) -> String {
    let mut width = 0;
    let fits = |ch: &char| {
        width += ch.width().unwrap_or(0);
        width <= columns
    };
    text.chars().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn the_last_line_is_shown_whatever_the_pieces_are() {
        let mut live = Live::new(false);
        assert_eq!(live.line(80), None);
        live.start("exec make");
        let tail = |live: &Live| live.line(80).unwrap().split_off(2);
        assert_eq!(tail(&live), "exec make");
        for (piece, expected) in [
            ("one\ntw", "exec make  tw"),
            ("o", "exec make  two"),
            ("\n\n  \n", "exec make  two"),
            ("th\u{1b}[2Jree", "exec make  th\\x1b[2Jree"),
        ] {
            live.output(piece);
            assert_eq!(tail(&live), expected, "{piece:?}");
        }
        live.label("exec done");
        assert!(tail(&live).starts_with("exec done"));
        live.output(&"x".repeat(10_000));
        assert!(live.tail.len() <= TAIL_CHARS + 20);
        live.typed(&"y".repeat(100));
        assert_eq!(live.line(80).unwrap(), "y".repeat(79));
        live.typed("wait");
        assert_eq!(tail(&live), "> wait");
        live.stop();
        assert_eq!(live.line(80), None);
    }

    #[test]
    fn it_never_fills_a_row() {
        let mut live = Live::new(false);
        live.start("読み取り中");
        live.output(&"漢".repeat(100));
        for columns in [1, 2, 20, 80] {
            let line = live.line(columns).unwrap();
            let width: usize = line.chars().map(|ch| ch.width().unwrap_or(0)).sum();
            assert!(width < columns.max(1) || width == 0, "{columns}: {line}");
        }
    }
}
