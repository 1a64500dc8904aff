//! Strict JSON: no panic, and what is accepted survives being written and read again.
#![no_main]

use helve_core::strict_json::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(value) = read(text, 64) {
        assert_eq!(read(&value.to_string(), 64).as_ref(), Ok(&value));
    }
});
