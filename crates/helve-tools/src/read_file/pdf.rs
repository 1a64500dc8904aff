//! The text of a PDF: a small reader of its own, because every step of it has to be bounded.
//!
//! A PDF may claim anything: streams that unpack to a thousand times their size, trees that contain themselves, forms
//! that draw forms. So objects are found by looking for them instead of trusting a table, they are parsed when they are
//! needed and dropped again, and one [`Budget`] pays for every byte that is unpacked, parsed or written. When it is
//! spent the text ends, and says so.
//!
//! | module | does |
//! |---|---|
//! | `object` | numbers, names, strings, arrays, dictionaries |
//! | `file` | where objects are, and what streams hold |
//! | `font` | codes to characters |
//! | `show` | the text that a page shows, in lines |
//!
//! Deliberately not here: encrypted files, text that is only a picture, the old LZW compression, and the order of
//! columns: text comes in the order in which the page draws it.

mod file;
mod font;
mod object;
mod show;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use helve_core::limits::fixed::PDF_PAGES;
use helve_core::{Cancel, Limits};

use super::Document;
use file::File;
use object::Object;

/// How deep the tree of pages may be.
const DEPTH: usize = 32;

/// What may still be spent on one file.
pub(super) struct Budget<'a> {
    /// Bytes that streams unpack to.
    unpacked: usize,
    /// Bytes that are parsed, however often.
    parsed: usize,
    /// Bytes of text.
    text: usize,
    cancel: &'a Cancel,
}

impl Budget<'_> {
    /// Pays for parsing; false if there is nothing left.
    fn parse(&mut self, bytes: usize) -> bool {
        self.parsed = self.parsed.saturating_sub(bytes);
        self.parsed > 0
    }

    fn is_spent(&self) -> bool {
        self.parsed == 0 || self.unpacked == 0 || self.text == 0 || self.cancel.is_cancelled()
    }
}

/// The text of a PDF, page by page; an error says why there is none.
pub(super) fn text(bytes: &[u8], limits: &Limits, cancel: &Cancel) -> Result<Document, String> {
    let size = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
    let unpacked = size(limits.pdf_unpacked_bytes);
    let mut budget = Budget {
        unpacked,
        parsed: unpacked.saturating_add(bytes.len()).saturating_mul(4),
        text: size(limits.document_text_bytes),
        cancel,
    };
    let file = File::open(bytes, &mut budget)?;
    let pages = pages(&file, &mut budget);
    if pages.is_empty() {
        return Err("no page of it could be found".to_owned());
    }
    let mut text = String::new();
    let (mut read, mut any) = (0, false);
    let mut fonts = show::Fonts::default();
    for (page, with_resources) in &pages {
        if budget.is_spent() {
            break;
        }
        let dict = file.dict(*page, &mut budget).unwrap_or_default();
        let resources = with_resources
            .and_then(|number| file.dict(number, &mut budget))
            .and_then(|dict| file.resolve_dict(dict.get(b"Resources")?, &mut budget))
            .unwrap_or_default();
        read += 1;
        text.push_str(&format!("[Page {read} of {}]\n", pages.len()));
        let before = text.len();
        show::page(&file, &dict, &resources, &mut fonts, &mut budget, &mut text);
        any |= text[before..].chars().any(|c| !c.is_whitespace());
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    let note = if read < pages.len() || budget.is_spent() {
        Some(format!("[The text ends in page {read}: more than the limits allow would have to be unpacked.]"))
    } else if !any {
        Some("[No text was found: the pages are probably pictures.]".to_owned())
    } else {
        None
    };
    Ok(Document { text, parts: pages.len() as u64, note })
}

/// The pages in their order: the number of each, and that of the node above it which has resources for it.
fn pages(file: &File<'_>, budget: &mut Budget<'_>) -> Vec<(u32, Option<u32>)> {
    let mut pages = Vec::new();
    let mut seen = BTreeSet::new();
    let root = file.root.and_then(|root| file.dict(root, budget)).unwrap_or_default();
    // What is to be visited, the next one last.
    let mut stack = Vec::new();
    if let Some(Object::Ref(top)) = root.get(b"Pages") {
        stack.push((*top, None, 0));
    }
    while let Some((number, above, depth)) = stack.pop() {
        if depth > DEPTH || pages.len() >= PDF_PAGES || budget.is_spent() {
            break;
        }
        let Some(dict) = file.dict(number, budget).filter(|_| seen.insert(number)) else { continue };
        let resources = if dict.get(b"Resources").is_some() { Some(number) } else { above };
        match dict.get(b"Kids").map(|kids| file.resolve(kids, budget)) {
            Some(Object::Array(kids)) => {
                let room = PDF_PAGES.saturating_sub(stack.len());
                let kids = kids.iter().take(room).rev().filter_map(|kid| match kid {
                    Object::Ref(number) => Some((*number, resources, depth + 1)),
                    _ => None,
                });
                stack.extend(kids);
            }
            _ if dict.name(b"Type") == Some(b"Page") || dict.get(b"Contents").is_some() => {
                pages.push((number, resources));
            }
            _ => {}
        }
    }
    if pages.is_empty() {
        // The tree is damaged: any page counts.
        for number in file.numbers() {
            if pages.len() >= PDF_PAGES || budget.is_spent() {
                break;
            }
            if file.dict(number, budget).is_some_and(|dict| dict.name(b"Type") == Some(b"Page")) {
                pages.push((number, Some(number)));
            }
        }
    }
    pages
}
