//! A journal that somebody else wrote: verifying it never panics.
#![no_main]

use std::sync::OnceLock;

use helve_store::{Home, verify};
use libfuzzer_sys::fuzz_target;

fn home() -> &'static (tempfile::TempDir, Home) {
    static HOME: OnceLock<(tempfile::TempDir, Home)> = OnceLock::new();
    HOME.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(dir.path().join("state/sessions/s")).expect("a session");
        let home = Home::open(&dir.path().join("state")).expect("a home");
        (dir, home)
    })
}

fuzz_target!(|bytes: &[u8]| {
    let (dir, home) = home();
    std::fs::write(dir.path().join("state/sessions/s/journal.jsonl"), bytes).expect("written");
    let _ = verify(home, "s", None);
});
