//! What the text of a path says, before anything is looked up.
//!
//! In comes text as a model writes it; out goes whether it is relative or absolute, its parts, and what of it a reader
//! would see. Nothing here touches a file system.

use helve_core::harmless::{escaped, is_harmless};
use helve_core::limits::fixed::PATH;
use helve_core::{ErrorKind, ToolError};

/// Says how a path should look instead.
const REMEDY: &str = "Use a path relative to the workspace, such as src/main.rs.";

/// What kind of path a text is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked<'a> {
    /// One that starts at the workspace.
    Relative(&'a str),
    /// One that starts at `/`.
    Absolute(&'a str),
}

/// Reads the text of a path. What is no path of this machine is refused.
pub(crate) fn asked(path: &str) -> Result<Asked<'_>, ToolError> {
    let shown = show(path);
    let refuse = |kind, message: String| Err(ToolError::new(kind, message).hint(REMEDY));
    if path.contains('\0') {
        return refuse(
            ErrorKind::InvalidParams,
            format!("The path '{shown}' contains a NUL character, which no name can."),
        );
    }
    if path.len() > PATH {
        return refuse(
            ErrorKind::InvalidParams,
            format!("The path is {} bytes long; at most {PATH} are possible.", path.len()),
        );
    }
    if path == "~" || path.starts_with("~/") {
        return refuse(
            ErrorKind::Blocked,
            format!(
                "'{shown}' is outside the workspace: '~' would be a home directory, and is not expanded."
            ),
        );
    }
    if let Some((scheme, _)) = path.split_once("://")
        && !scheme.is_empty()
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    {
        return refuse(ErrorKind::Blocked, format!("'{shown}' is a URL, not a path."));
    }
    Ok(if path.starts_with('/') { Asked::Absolute(path) } else { Asked::Relative(path) })
}

/// The parts of a relative path with `.` and `..` taken out by their letters alone; none if it leads above its start.
/// Where no part is a link, this is what the kernel makes of it.
pub(crate) fn parts(relative: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts)
}

/// A path for people: what could disturb a terminal, hide or reorder text is shown as an escape, and so is a line's end.
pub(crate) fn show(path: &str) -> String {
    let plain = |c: char| is_harmless(c) && c != '\n' && c != '\t';
    if path.chars().all(plain) {
        return path.to_owned();
    }
    let mut out = String::with_capacity(path.len() + 8);
    for c in path.chars() {
        if plain(c) { out.push(c) } else { out.push_str(&escaped(c)) }
    }
    out
}

/// A path as text: as it is, or where it is no UTF-8 with the other bytes written as `\xff`, so that no two look the same.
pub(crate) fn told(path: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(path) {
        return text.to_owned();
    }
    let mut text = String::new();
    for chunk in path.utf8_chunks() {
        text.push_str(&chunk.valid().replace("\\x", "\\x5cx"));
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

/// The bytes that [`told`] made a text of, to go on behind them.
pub(crate) fn untold(text: &str) -> Vec<u8> {
    let mut rest = text.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((first, after)) = rest.split_first() {
        let code = after.strip_prefix(b"x").filter(|_| *first == b'\\').and_then(|after| after.get(..2));
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    bytes
}

/// What of a name a reader sees, and what a file system that folds names would make of it: without invisible
/// characters, without dots and spaces at its end, in small letters.
pub(crate) fn visible(name: &str) -> String {
    let seen: String = name.chars().filter(|c| is_visible(*c)).flat_map(char::to_lowercase).collect();
    let seen = seen.trim_end_matches(['.', ' ']).replace('\u{17f}', "s");
    // The short name that FAT and NTFS give to `.git`.
    match seen.strip_prefix("git~") {
        Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => ".git".to_owned(),
        _ => seen,
    }
}

/// Whether [`visible`] may make something else of a name of a path than small letters do.
pub(crate) fn is_odd(path: &[u8]) -> bool {
    let ends = |at: usize| matches!(path.get(at + 1), None | Some(b'/'));
    path.iter().enumerate().any(|(at, byte)| match byte {
        b'.' | b' ' => ends(at),
        b'~' => true,
        byte => !matches!(byte, b' '..=b'~'),
    })
}

fn is_visible(c: char) -> bool {
    is_harmless(c)
        && !matches!(c, '\n' | '\t' | '\u{34f}' | '\u{200c}' | '\u{200d}' | '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}')
}

/// Whether a name holds a character that controls a terminal; no file with such a name is made.
pub(crate) fn has_control(name: &str) -> bool {
    name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn what_is_no_path_is_refused_with_what_to_do() {
        for (path, kind) in [
            ("a\0b", ErrorKind::InvalidParams),
            ("~", ErrorKind::Blocked),
            ("~/.bashrc", ErrorKind::Blocked),
            ("file:///etc/passwd", ErrorKind::Blocked),
            ("https://x/y", ErrorKind::Blocked),
        ] {
            let error = asked(path).unwrap_err();
            assert_eq!(error.kind, kind, "{path}");
            assert_eq!(error.hint.as_deref(), Some(REMEDY));
        }
        assert_eq!(asked(&"x".repeat(5000)).unwrap_err().kind, ErrorKind::InvalidParams);
        assert_eq!(asked("~$doc.docx"), Ok(Asked::Relative("~$doc.docx")));
        assert_eq!(asked("a:b//c"), Ok(Asked::Relative("a:b//c")));
        assert_eq!(asked("/x"), Ok(Asked::Absolute("/x")));
    }

    #[test]
    fn dots_are_taken_out_and_never_lead_above() {
        assert_eq!(parts("./a//b/../c/"), Some(vec!["a", "c"]));
        assert_eq!(parts(""), Some(vec![]));
        assert_eq!(parts("missing/../../x"), None);
        assert_eq!(parts("．．/x"), Some(vec!["．．", "x"]));
        assert_eq!(parts("..\\x"), Some(vec!["..\\x"]));
    }

    #[test]
    fn the_visible_form_of_a_name() {
        for name in [".g\u{200d}it", ".GIT", ".git.", ".git ", "git~1", ".g\u{ad}it", ".gi\u{fe0f}t"] {
            assert_eq!(visible(name), ".git", "{name:?}");
        }
        assert_eq!(visible(".ba\u{17f}hrc"), ".bashrc");
        assert_eq!(visible("git~x"), "git~x");
        for name in [".g\u{200d}it", ".git.", "a/.git /x", "git~1", ".gi\u{fe0f}t", ".ba\u{17f}hrc", "a\tb"] {
            assert!(is_odd(name.as_bytes()), "{name:?}");
        }
        assert!(!is_odd(b"src/.GIT/with space.rs"));
    }

    #[test]
    fn control_characters_are_shown_as_escapes() {
        assert_eq!(show("con\n\x1b[2Jname"), "con\\x0a\\x1b[2Jname");
        assert_eq!(show("ü.txt"), "ü.txt");
    }

    #[test]
    fn what_is_no_text_is_told_and_found_again() {
        assert_eq!(told(b"a/\xffb\x80"), r"a/\xffb\x80");
        assert_eq!(told("ü\\x41".as_bytes()), "ü\\x41");
    }

    proptest::proptest! {
        #[test]
        fn bytes_come_back(bytes in proptest::collection::vec(proptest::sample::select(b"a\\x4f/\xff\xc3\xa4\x80".to_vec()), 0..12)) {
            // What is text stays as it is, and may look like something else.
            if std::str::from_utf8(&bytes).is_err() {
                assert_eq!(untold(&told(&bytes)), bytes);
            }
        }
    }
}
