//! Edits of any file: no panic, nothing outside of what was found changes, and an edit that repeats its text changes nothing.
#![no_main]

use helve_tools::edit::{Edit, apply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], Vec<(&str, &str, bool)>)| {
    let (file, pairs) = input;
    let edits: Vec<Edit> = pairs
        .iter()
        .take(8)
        .map(|(old, new, all)| Edit { old: (*old).to_owned(), new: (*new).to_owned(), all: *all })
        .collect();
    if let Ok(edited) = apply(file, &edits, usize::MAX) {
        let first = edited.spans.first().map_or(file.len(), |span| span.start);
        let last = edited.spans.last().map_or(file.len(), |span| span.end);
        assert!(edited.bytes.starts_with(&file[..first]));
        assert!(edited.bytes.ends_with(&file[last..]));
    }
    let same: Vec<Edit> = edits.into_iter().map(|edit| Edit { new: edit.old.clone(), ..edit }).collect();
    if let Ok(edited) = apply(file, &same, usize::MAX) {
        assert_eq!(edited.bytes, file);
    }
});
