//! What a hostile server may write: no panic, the same messages whatever the pieces in which they come, none from a line
//! over the cap; and any JSON is the definition of a tool or is left out.
#![no_main]

use helve_mcp::client::{try_definition, try_frames};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], u8, u16)| {
    let (bytes, piece, cap) = input;
    let (piece, cap) = (usize::from(piece), usize::from(cap));
    let executor = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let whole = executor.block_on(try_frames(bytes, bytes.len(), cap));
    assert_eq!(executor.block_on(try_frames(bytes, piece, cap)), whole);
    let longest = bytes.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap_or(0);
    assert!(!whole.1 || longest > cap, "a line within the cap was refused");
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(raw) = serde_json::from_slice(line) else { continue };
        if let Ok(definition) = try_definition("s", &raw) {
            // What was cleaned once is clean, and its fingerprint is that of what the owner agrees to.
            let again = try_definition("s", &definition.pinned).unwrap();
            assert_eq!((again.hash, again.input), (definition.hash, definition.input));
        }
    }
});
