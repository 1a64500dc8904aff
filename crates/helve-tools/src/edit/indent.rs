//! From the indentation of a model's text to the file's.
//!
//! The lines of a match say which indentation of the text stands for which of the file. New lines are indented by the
//! same rule; a depth that the match does not show is built on the nearest one that it does.

use super::lines::{indent, trim_end};

/// More depths than any program has.
const MAX_DEPTHS: usize = 64;
/// Spaces that a tab stands for where the match does not tell.
const DEFAULT_UNIT: usize = 4;

/// Which indentation of a text stands for which of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    /// Each indentation of the text with the file's, the shallowest first.
    depths: Vec<(Vec<u8>, Vec<u8>)>,
    /// Spaces of one side that a tab of the other stands for.
    unit: usize,
}

impl Shift {
    /// From pairs of a line of the text and the file's line. None if the two are not indented alike: the same depth
    /// here must be the same there, and a deeper one here a deeper one there.
    pub(crate) fn between<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Option<Shift> {
        let mut depths: Vec<(&[u8], &[u8])> = Vec::new();
        for (text, file) in pairs {
            if trim_end(text).is_empty() {
                continue;
            }
            let (text, file) = (&text[..indent(text)], &file[..indent(file)]);
            match depths.iter().find(|(known, _)| *known == text) {
                Some((_, same)) if *same == file => {}
                Some(_) => return None,
                None if depths.len() == MAX_DEPTHS => return None,
                None => depths.push((text, file)),
            }
        }
        depths.sort_by_key(|(text, _)| width(text, DEFAULT_UNIT));
        let deeper = |pair: &[(&[u8], &[u8])]| {
            let [(a, x), (b, y)] = pair else { return true };
            let (text, file) = (width(a, DEFAULT_UNIT), width(b, DEFAULT_UNIT));
            text == file || width(x, DEFAULT_UNIT) < width(y, DEFAULT_UNIT)
        };
        if !depths.windows(2).all(deeper) {
            return None;
        }
        let unit = unit(&depths);
        let depths = depths.into_iter().map(|(text, file)| (text.to_vec(), file.to_vec())).collect();
        Some(Shift { depths, unit })
    }

    /// The file's indentation for an indentation of the text.
    pub(crate) fn apply(&self, text: &[u8]) -> Vec<u8> {
        if let Some((_, file)) = self.depths.iter().find(|(known, _)| known == text) {
            return file.clone();
        }
        let Some((shallowest, file)) = self.depths.first() else { return text.to_vec() };
        // The deepest known indentation that this one continues.
        let base = self.depths.iter().rev().find(|(known, _)| text.starts_with(known));
        if let Some((known, file)) = base {
            let mut built = file.clone();
            built.extend(self.convert(&text[known.len()..]));
            return built;
        }
        // Shallower than all that is known: as much less than the shallowest.
        let less = width(shallowest, self.unit).saturating_sub(width(text, self.unit));
        let mut built = file.clone();
        let target = width(file, self.unit).saturating_sub(less);
        while width(&built, self.unit) > target {
            built.pop();
        }
        built
    }

    /// More indentation in the file's own kind of white space.
    fn convert(&self, more: &[u8]) -> Vec<u8> {
        let file_tabs = self.depths.iter().any(|(_, file)| file.contains(&b'\t'));
        let file_spaces = self.depths.iter().any(|(_, file)| file.contains(&b' '));
        let width = width(more, self.unit);
        if file_tabs && !file_spaces && !more.contains(&b'\t') {
            let mut built = vec![b'\t'; width / self.unit];
            built.resize(built.len() + width % self.unit, b' ');
            built
        } else if file_spaces && !file_tabs && more.contains(&b'\t') {
            vec![b' '; width]
        } else {
            more.to_vec()
        }
    }
}

/// Columns, with a tab as `unit` of them.
fn width(indent: &[u8], unit: usize) -> usize {
    indent.iter().map(|byte| if *byte == b'\t' { unit } else { 1 }).sum()
}

/// Spaces for a tab, from a pair where one side has tabs alone and the other spaces alone.
fn unit(depths: &[(&[u8], &[u8])]) -> usize {
    let only = |text: &[u8], byte: u8| !text.is_empty() && text.iter().all(|b| *b == byte);
    for (i, (a, x)) in depths.iter().enumerate() {
        // Against a shallower line first: a text that was cut out has lost the depth that all its lines share.
        for (b, y) in depths[..i].iter().rev().chain([&(&b""[..], &b""[..])]) {
            let (Some(text), Some(file)) = (a.strip_prefix(*b), x.strip_prefix(*y)) else { continue };
            let (spaces, tabs) =
                match (only(text, b' '), only(file, b'\t'), only(text, b'\t'), only(file, b' ')) {
                    (true, true, ..) => (text.len(), file.len()),
                    (.., true, true) => (file.len(), text.len()),
                    _ => continue,
                };
            if spaces % tabs == 0 {
                return spaces / tabs;
            }
        }
    }
    DEFAULT_UNIT
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn shift(pairs: &[(&str, &str)]) -> Option<Shift> {
        Shift::between(pairs.iter().map(|(a, b)| (a.as_bytes(), b.as_bytes())))
    }

    fn applied(pairs: &[(&str, &str)], text: &str) -> String {
        String::from_utf8(shift(pairs).unwrap().apply(text.as_bytes())).unwrap()
    }

    #[test]
    fn known_depths_are_taken_and_others_are_built_on_them() {
        let spaces = [("a", "    a"), ("  b", "      b")];
        assert_eq!(applied(&spaces, ""), "    ");
        assert_eq!(applied(&spaces, "  "), "      ");
        assert_eq!(applied(&spaces, "    "), "        ");
        let less = [("    a", "  a")];
        assert_eq!(applied(&less, "      "), "    ");
        assert_eq!(applied(&less, "  "), "");
        assert_eq!(applied(&less, ""), "");
    }

    #[test]
    fn spaces_become_tabs_and_tabs_spaces() {
        assert_eq!(applied(&[("  a", "\ta")], "      "), "\t\t\t");
        assert_eq!(applied(&[("a", "\ta"), ("    b", "\t\tb")], "        "), "\t\t\t");
        assert_eq!(applied(&[("\ta", "  a")], "\t\t\t"), "      ");
        assert_eq!(applied(&[("a", "\ta")], "    "), "\t\t");
    }

    #[test]
    fn lines_that_are_not_indented_alike_do_not_match() {
        assert_eq!(shift(&[("a", "a"), ("b", "  b")]), None);
        assert_eq!(shift(&[("a", "a"), ("  b", "b")]), None);
        assert!(shift(&[("a", "  a"), ("", "x"), ("b", "  b")]).is_some());
    }
}
