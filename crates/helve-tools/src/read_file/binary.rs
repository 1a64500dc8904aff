//! The description of a file that is no text: its type, its size, its first bytes.

use std::fmt::Write;

use helve_core::Output;
use helve_core::files::Page;

use super::facts::{Facts, Kind};
use super::text::size;

/// How many bytes are shown.
const SHOWN: usize = 64;

pub(super) fn output(page: &Page, media_type: &str, head: &[u8]) -> Output {
    let len = page.stat.len;
    let mut text =
        format!("Binary file [{media_type}], {} ({len} bytes). It is not shown as text.", size(len));
    let head = &head[..head.len().min(SHOWN)];
    let _ = write!(text, "\nThe first {} bytes:\n{}", head.len(), hexdump(head));
    let facts = Facts {
        size: Some(len),
        mime_type: Some(media_type.to_owned()),
        ..Facts::new(Kind::Binary, &page.path)
    };
    Output::text(text).with_details(crate::details(&facts))
}

/// Sixteen bytes a line: where they are, their values, and what is printable of them.
fn hexdump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (number, row) in bytes.chunks(16).enumerate() {
        if number > 0 {
            text.push('\n');
        }
        let _ = write!(text, "{:08x} ", number * 16);
        for at in 0..16 {
            if at == 8 {
                text.push(' ');
            }
            match row.get(at) {
                Some(byte) => _ = write!(text, " {byte:02x}"),
                None => text.push_str("   "),
            }
        }
        let shown = row.iter().map(|byte| if matches!(byte, 0x20..0x7f) { char::from(*byte) } else { '.' });
        let _ = write!(text, "  |{}|", shown.collect::<String>());
    }
    text
}
