//! A command as a person must see it: every character visible, on lines of its own, with stretches of it marked.
//!
//! Stricter than the harmless text of outputs: an odd space, a joiner or a carriage return changes what a command does, so
//! that it is shown here although it could do nothing to a terminal.

use anstyle::Style;
use helve::harmless::{escaped, is_harmless};
use unicode_width::UnicodeWidthStr;

use crate::ui;

/// Which bytes of a command a mark is about.
pub(crate) type Stretch = (usize, usize);

/// How strongly a stretch is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// Not at all.
    None,
    /// It cannot be told what it does.
    Unknown,
    /// A rule is about it.
    Rule,
}

/// A stretch of one line that looks the same throughout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// What is shown.
    pub(crate) text: String,
    /// Whether it stands for a character that would not be seen.
    pub(crate) escaped: bool,
    /// How it is marked.
    pub(crate) mark: Mark,
}

impl Segment {
    /// How it is drawn where styles can be seen.
    pub(crate) fn style(&self) -> Style {
        let style = match self.mark {
            Mark::None => Style::new(),
            Mark::Unknown => Style::new().underline(),
            Mark::Rule => ui::CAREFUL.underline(),
        };
        if self.escaped { style.invert() } else { style }
    }
}

/// The lines of a command. A stretch that does not lie in the text marks nothing.
pub(crate) fn lines(command: &str, marks: &[(Stretch, Mark)]) -> Vec<Vec<Segment>> {
    let marks = Marks::new(command.len(), marks);
    let mut lines = vec![Vec::new()];
    for (at, ch) in command.char_indices() {
        if ch == '\n' {
            lines.push(Vec::new());
            continue;
        }
        let Some(line) = lines.last_mut() else { continue };
        let (escape, mark) = (!is_visible(ch), marks.at(at));
        let segment = match line.last_mut() {
            Some(Segment { escaped, mark: before, .. }) if *escaped == escape && *before == mark => {
                line.last_mut()
            }
            _ => {
                line.push(Segment { text: String::new(), escaped: escape, mark });
                line.last_mut()
            }
        };
        if let Some(segment) = segment {
            match (escape, ch) {
                (false, _) => segment.text.push(ch),
                (true, '\t') => segment.text.push_str("\\t"),
                (true, _) => segment.text.push_str(&escaped(ch)),
            }
        }
    }
    lines
}

/// The marked lines as text, each behind `margin`, with a line of carets below what a rule is about and of tildes below
/// what cannot be told. Without marks, every line and nothing below.
pub(crate) fn drawn(command: &str, marks: &[(Stretch, Mark)], margin: &str) -> String {
    let mut out = String::new();
    for line in lines(command, marks) {
        out.push_str(margin);
        let mut below = String::new();
        for segment in &line {
            out.push_str(&ui::styled(segment.style(), &segment.text));
            let under = match segment.mark {
                Mark::None => " ",
                Mark::Unknown => "~",
                Mark::Rule => "^",
            };
            below.push_str(&under.repeat(segment.text.width()));
        }
        out.push('\n');
        let below = below.trim_end();
        if !below.is_empty() {
            out.push_str(&format!("{margin}{}\n", ui::styled(ui::CAREFUL, below)));
        }
    }
    out
}

/// Whether a character of a command is seen as what it is.
fn is_visible(ch: char) -> bool {
    let hides = matches!(ch,
        '\u{34f}' | '\u{180b}'..='\u{180f}' | '\u{200c}' | '\u{200d}' | '\u{2800}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{1d159}' | '\u{1d173}'..='\u{1d17a}');
    is_harmless(ch) && !hides && (ch == ' ' || !ch.is_whitespace())
}

/// The strongest mark at each place, as places where it changes.
struct Marks {
    changes: Vec<(usize, Mark)>,
}

impl Marks {
    fn new(length: usize, marks: &[(Stretch, Mark)]) -> Self {
        // An empty stretch at the end is about what is missing there; there is nothing to mark.
        let fits = |((from, to), _): &&(Stretch, Mark)| from < to && *to <= length;
        let mut borders: Vec<(usize, bool, Mark)> = Vec::new();
        for ((from, to), mark) in marks.iter().filter(fits) {
            borders.push((*from, true, *mark));
            borders.push((*to, false, *mark));
        }
        borders.sort_by_key(|(at, ..)| *at);
        let (mut rules, mut unknown) = (0_usize, 0_usize);
        let mut changes = Vec::new();
        for (at, opens, mark) in borders {
            let count = if mark == Mark::Rule { &mut rules } else { &mut unknown };
            *count = if opens { *count + 1 } else { count.saturating_sub(1) };
            let mark = match (rules, unknown) {
                (1.., _) => Mark::Rule,
                (0, 1..) => Mark::Unknown,
                _ => Mark::None,
            };
            changes.push((at, mark));
        }
        Marks { changes }
    }

    fn at(&self, place: usize) -> Mark {
        let before = self.changes.partition_point(|(at, _)| *at <= place);
        before.checked_sub(1).and_then(|at| self.changes.get(at)).map_or(Mark::None, |(_, mark)| *mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    fn plain(command: &str, marks: &[(Stretch, Mark)]) -> String {
        anstream::adapter::strip_str(&drawn(command, marks, "  ")).to_string()
    }

    #[test]
    fn stretches_are_marked_below_their_lines() {
        let rule = |from, to| ((from, to), Mark::Rule);
        assert_eq!(plain("a; rm -rf b; c", &[rule(3, 11)]), "  a; rm -rf b; c\n     ^^^^^^^^\n");
        assert_eq!(plain("ls\nü\trm x\nls", &[rule(6, 10)]), "  ls\n  ü\\trm x\n     ^^^^\n  ls\n");
        assert_eq!(plain("cat <<x\ny\nx", &[rule(4, 11)]), "  cat <<x\n      ^^^\n  y\n  ^\n  x\n  ^\n");
        assert_eq!(plain("漢 rm", &[rule(4, 6)]), "  漢 rm\n     ^^\n");
        assert_eq!(
            plain("eval $x; rm y", &[((0, 7), Mark::Unknown), rule(9, 13), rule(5, 7)]),
            "  eval $x; rm y\n  ~~~~~^^  ^^^^\n"
        );
        for outside in [(1, 0), (0, 9), (2, 2)] {
            assert_eq!(plain("ü", &[(outside, Mark::Rule)]), "  ü\n");
        }
    }

    #[test]
    fn what_hides_is_shown() {
        assert_eq!(
            plain("a\u{202e}b\u{200d}c\u{a0}d\re\u{7f}\u{1b}[2K\u{e0041}\u{200b}", &[]),
            "  a\\u{202e}b\\u{200d}c\\u{a0}d\\re\\x7f\\x1b[2K\\u{e0041}\\u{200b}\n"
        );
        assert_eq!(lines("a\r\nb", &[]).len(), 2);
        assert_eq!(plain("a\r\nb", &[]), "  a\\r\n  b\n", "the shell sees the carriage return");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_hides(
            text in "(?s)[a-z \n\t\u{0}-\u{1f}\u{7f}-\u{a0}\u{2000}-\u{2070}漢]{0,40}",
            marks in prop::collection::vec(((0usize..50, 0usize..50), any::<bool>()), 0..6),
        ) {
            let marks: Vec<_> =
                marks.into_iter().map(|(s, rule)| (s, if rule { Mark::Rule } else { Mark::Unknown })).collect();
            let lines = lines(&text, &marks);
            prop_assert_eq!(lines.len(), text.matches('\n').count() + 1);
            let shown: String = lines.iter().flatten().map(|segment| segment.text.as_str()).collect();
            prop_assert!(shown.chars().all(is_visible));
            for ch in text.chars().filter(|ch| is_visible(*ch)) {
                prop_assert!(shown.contains(ch));
            }
        }
    }
}
