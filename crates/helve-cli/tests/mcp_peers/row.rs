//! One line of the table that `scripts/mcp-peers` ends with: written when the test ends, however it ends.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

pub(crate) struct Row {
    what: String,
    begin: Instant,
    /// What was seen, for the reader of the table.
    pub(crate) seen: String,
    _alone: MutexGuard<'static, ()>,
}

impl Row {
    /// Waits until no other test of these runs.
    pub(crate) fn new(what: impl Into<String>) -> Row {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        Row { what: what.into(), begin: Instant::now(), seen: String::new(), _alone: alone }
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        let outcome = if std::thread::panicking() { "FAILED" } else { "ok" };
        let seconds = self.begin.elapsed().as_secs_f64();
        let line = format!("{outcome:6}  {:32}  {seconds:5.1} s  {}\n", self.what, self.seen);
        print!("{line}");
        let Some(table) = std::env::var_os("HELVE_TEST_MCP_TABLE") else { return };
        let table = std::fs::File::options().append(true).create(true).open(table);
        let _ = table.and_then(|mut table| table.write_all(line.as_bytes()));
    }
}
