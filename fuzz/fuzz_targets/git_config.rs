//! Git's configuration: no panic, and a value that is written in quotes comes back as it was.
#![no_main]

use helve_sandbox::git_config::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &str)| {
    let (bytes, value) = input;
    let _ = read(bytes);
    if value.chars().any(|letter| letter.is_control()) {
        return;
    }
    let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
    let text = format!("[a \"{quoted}\"]\nx = \"{quoted}\"\n");
    let entries = read(text.as_bytes()).unwrap();
    assert_eq!(entries[0].subsection.as_deref(), Some(value.as_bytes()));
    assert_eq!(entries[0].value.as_deref(), Some(value.as_bytes()));
});
