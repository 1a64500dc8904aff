//! A bounded text on the stack, always ended by NUL, for processes that must not allocate.

/// The longest path that is looked at, with its NUL.
pub(super) const PATH_BYTES: usize = 4096;

/// A text of fewer than `N` bytes.
pub(super) struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    pub(super) const fn new() -> Text<N> {
        Text { bytes: [0; N], length: 0 }
    }

    /// Adds bytes. None if there is no room for them and a NUL.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.length.checked_add(bytes.len()).filter(|end| *end < N)?;
        self.bytes.get_mut(self.length..end)?.copy_from_slice(bytes);
        self.length = end;
        Some(())
    }

    /// Adds a number, in decimal.
    pub(super) fn push_number(&mut self, number: u32) -> Option<()> {
        let mut digits = [0_u8; 10];
        let mut rest = number;
        let mut used = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            used += 1;
            if rest == 0 {
                break;
            }
        }
        self.push(digits.get(digits.len() - used..)?)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Where it lies, ended by NUL.
    pub(super) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// Room for a call to fill, of which [`Text::set_length`] says how much it did.
    pub(super) fn room(&mut self) -> &mut [u8] {
        let end = N.saturating_sub(1);
        self.bytes.get_mut(..end).unwrap_or_default()
    }

    /// So many bytes of the room are the text.
    pub(super) fn set_length(&mut self, length: usize) {
        self.cut(length.min(N.saturating_sub(1)));
    }

    /// Shortens it.
    pub(super) fn cut(&mut self, length: usize) {
        self.length = length;
        if let Some(end) = self.bytes.get_mut(length) {
            *end = 0;
        }
    }
}

/// Where the last part of a path begins, and where the directory above it ends. None for the root itself.
pub(super) fn split(path: &[u8]) -> Option<(usize, usize)> {
    let end = path.iter().rposition(|byte| *byte != b'/')? + 1;
    let start = path.get(..end)?.iter().rposition(|byte| *byte == b'/')? + 1;
    Some((start, if start == 1 { 1 } else { start - 1 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_takes_what_fits_with_its_end() {
        let mut text = Text::<8>::new();
        assert_eq!(text.push(b"ab"), Some(()));
        assert_eq!(text.push_number(305), Some(()));
        assert_eq!(text.bytes(), b"ab305");
        assert_eq!(text.push(b"xyz"), None);
        assert_eq!(text.push_number(0), Some(()));
        assert_eq!(text.push_number(7), Some(()));
        assert_eq!(text.push(b"8"), None);
        assert_eq!(text.bytes(), b"ab30507");
        text.cut(1);
        assert_eq!(text.bytes(), b"a");
        assert_eq!(text.room().len(), 7);
        let mut text = Text::<12>::new();
        assert_eq!(text.push_number(u32::MAX), Some(()));
        assert_eq!(text.bytes(), b"4294967295");
    }

    #[test]
    fn a_path_is_split_before_its_last_part() {
        assert_eq!(split(b"/a/bc"), Some((3, 2)));
        assert_eq!(split(b"/a/bc//"), Some((3, 2)));
        assert_eq!(split(b"/a"), Some((1, 1)));
        assert_eq!(split(b"//a"), Some((2, 1)));
        assert_eq!((split(b"/"), split(b""), split(b"a")), (None, None, None));
    }
}
