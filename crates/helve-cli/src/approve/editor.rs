//! One line of text that a person edits: arrow keys, home, end, backspace, delete, paste. Pure; it draws nothing.

use super::keys::{Event, Key};

/// No line gets longer, in characters.
const LONGEST: usize = 4000;

/// A line and where the cursor stands in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Editor {
    text: Vec<char>,
    cursor: usize,
}

/// What came of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// The line is still being edited.
    Going,
    /// Enter.
    Done,
    /// Escape.
    GivenUp,
}

impl Editor {
    /// Starts with a text, the cursor at its end.
    pub(super) fn new(text: &str) -> Self {
        let text: Vec<char> = text.chars().take(LONGEST).collect();
        Editor { cursor: text.len(), text }
    }

    pub(super) fn text(&self) -> String {
        self.text.iter().collect()
    }

    /// The text before the cursor and that from the cursor on.
    pub(super) fn halves(&self) -> (String, String) {
        let (before, after) = self.text.split_at(self.cursor.min(self.text.len()));
        (before.iter().collect(), after.iter().collect())
    }

    pub(super) fn take(&mut self, event: &Event) -> Edit {
        match event {
            Event::Paste(text) => {
                // A line has no second one: what would end it becomes a space.
                text.trim_end_matches(['\r', '\n']).chars().for_each(|ch| self.insert(ch));
            }
            Event::Key(key) => match key {
                Key::Enter => return Edit::Done,
                Key::Escape => return Edit::GivenUp,
                Key::Char(ch) => self.insert(*ch),
                Key::Left => self.cursor = self.cursor.saturating_sub(1),
                Key::Right => self.cursor = (self.cursor + 1).min(self.text.len()),
                Key::Home => self.cursor = 0,
                Key::End => self.cursor = self.text.len(),
                Key::Backspace if self.cursor > 0 => {
                    self.cursor -= 1;
                    self.text.remove(self.cursor);
                }
                Key::Delete if self.cursor < self.text.len() => {
                    self.text.remove(self.cursor);
                }
                Key::Rubout => {
                    self.text.drain(..self.cursor);
                    self.cursor = 0;
                }
                _ => {}
            },
        }
        Edit::Going
    }

    fn insert(&mut self, ch: char) {
        let ch = if ch.is_control() { ' ' } else { ch };
        if self.text.len() < LONGEST {
            self.text.insert(self.cursor, ch);
            self.cursor += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    fn type_keys(editor: &mut Editor, keys: &[Key]) {
        for key in keys {
            assert_eq!(editor.take(&Event::Key(*key)), Edit::Going);
        }
    }

    #[test]
    fn a_line_is_edited_where_the_cursor_stands() {
        let mut editor = Editor::new("git push");
        type_keys(&mut editor, &[Key::Char('!'), Key::Home, Key::Char('ü'), Key::Right, Key::Delete]);
        assert_eq!(editor.halves(), ("üg".into(), "t push!".into()));
        type_keys(&mut editor, &[Key::End, Key::Backspace, Key::Left, Key::Backspace, Key::Left]);
        assert_eq!(editor.halves(), ("ügt p".into(), "uh".into()));
        type_keys(&mut editor, &[Key::Rubout, Key::Backspace, Key::Unknown]);
        assert_eq!(editor.text(), "uh");
        assert_eq!(editor.take(&Event::Key(Key::Enter)), Edit::Done);
        assert_eq!(editor.take(&Event::Key(Key::Escape)), Edit::GivenUp);
    }

    #[test]
    fn pasted_lines_become_one() {
        let mut editor = Editor::new("");
        assert_eq!(editor.take(&Event::Paste("a\nb\tc\r\n".into())), Edit::Going);
        assert_eq!(editor.text(), "a b c");
    }

    proptest! {
        #[test]
        fn the_cursor_stays_in_a_bounded_line(
            start in "\\PC{0,10}",
            steps in prop::collection::vec(0usize..9, 0..60),
        ) {
            let mut editor = Editor::new(&start);
            let long = "x".repeat(LONGEST);
            for step in steps {
                editor.take(&match step {
                    0 => Event::Key(Key::Left),
                    1 => Event::Key(Key::Right),
                    2 => Event::Key(Key::Home),
                    3 => Event::Key(Key::End),
                    4 => Event::Key(Key::Backspace),
                    5 => Event::Key(Key::Delete),
                    6 => Event::Key(Key::Rubout),
                    7 => Event::Key(Key::Char('é')),
                    _ => Event::Paste(long.clone()),
                });
                prop_assert!(editor.cursor <= editor.text.len() && editor.text.len() <= LONGEST);
            }
        }
    }
}
