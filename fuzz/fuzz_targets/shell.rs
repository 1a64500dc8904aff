//! Shell commands: no panic, and every span lies in the text.
#![no_main]

use helve_shell::{path_words, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let command = read(text);
    for word in command.words() {
        assert!(text.get(word.span.range()).is_some());
    }
    for path in path_words(&command) {
        assert!(path.span.end <= text.len());
    }
});
