//! What a hostile model server may send: no panic, the same answer whatever the pieces in which it comes, and every call with
//! a name of its own.
#![no_main]

use std::collections::HashSet;

use helve_agent::models::try_stream;
use libfuzzer_sys::fuzz_target;

const PROVIDERS: [&str; 4] = ["openai", "openai-responses", "anthropic", "gemini"];

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (provider, size, bytes) = input;
    let provider = PROVIDERS[usize::from(provider) % PROVIDERS.len()];
    let pieces: Vec<&[u8]> = bytes.chunks(usize::from(size).max(1)).collect();
    match (try_stream(provider, &[bytes]), try_stream(provider, &pieces)) {
        (Ok((whole, told)), Ok((mut in_pieces, told_in_pieces))) => {
            assert_eq!(told, told_in_pieces);
            let ids: HashSet<&str> = whole.message.calls.iter().map(|call| call.id.as_str()).collect();
            assert_eq!(ids.len(), whole.message.calls.len());
            // A name that the server left out is made up, and another one each time.
            for (call, other) in whole.message.calls.iter().zip(&mut in_pieces.message.calls) {
                assert!(!other.id.is_empty());
                other.id.clone_from(&call.id);
            }
            assert_eq!(whole, in_pieces);
        }
        (Err(error), Err(in_pieces)) => assert_eq!(error, in_pieces),
        (whole, in_pieces) => panic!("{whole:?} and {in_pieces:?}"),
    }
});
