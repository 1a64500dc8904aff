//! Windows of any bytes in any encoding: no panic, no window beyond its bounds, and pages of one size put together are
//! the same text as pages of another.
#![no_main]

use std::collections::BTreeMap;

use helve_core::files::{FilesScope, PageEnd, PageRequest, PageStart, PathRules};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], u8, u8)| {
    let (bytes, max_lines, max_bytes) = input;
    let files = BTreeMap::from([("f".to_owned(), bytes.to_vec())]);
    let bridge = helve_workspace::memory(files, PathRules::default()).unwrap();
    let files = bridge.scoped(FilesScope::default());
    let executor = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let paged = |max_lines: u64, max_bytes: u64| {
        let mut all = String::new();
        let mut start = PageStart::Line { line: 1, cursor: 0 };
        loop {
            let request = PageRequest { path: "f".to_owned(), start, max_lines, max_bytes };
            let page = executor.block_on(files.page(&request)).unwrap();
            assert!(page.text.len() as u64 <= max_bytes && page.lines <= max_lines);
            all.push_str(&page.text);
            start = match page.end {
                PageEnd::End => return all,
                PageEnd::Line(line) => {
                    all.push('\n');
                    PageStart::Line { line, cursor: 0 }
                }
                PageEnd::Inside { line, cursor } => PageStart::Line { line, cursor },
                PageEnd::More => panic!("a window by number ends at a number"),
            };
        }
    };
    let whole = paged(u64::MAX, 1 << 24);
    assert_eq!(paged(1 + u64::from(max_lines), 4 + u64::from(max_bytes)), whole);
});
