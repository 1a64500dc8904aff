//! A small real model on this machine. `scripts/real-model` installs it and `HELVE_TEST_REAL_MODEL` names where; without that
//! there is nothing to ask, and a test says so. `server.py` tells how it is served.
#![allow(
    dead_code,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SERVER: &str = include_str!("server.py");
/// How many tokens fit into the model.
pub(crate) const WINDOW: u64 = 8192;
/// The server ends by itself when it is told to; after so long it is ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// One test at a time asks a model: two would only take each other's time.
static ONE: Mutex<()> = Mutex::new(());

/// The model, and its server while it lives.
pub(crate) struct RealModel {
    /// Where it is asked, with `/v1` at the end.
    pub(crate) url: String,
    server: Child,
    _alone: MutexGuard<'static, ()>,
}

impl RealModel {
    /// Starts the server; none where nothing is installed.
    pub(crate) fn start(test: &str) -> Option<RealModel> {
        let Some(place) = std::env::var_os("HELVE_TEST_REAL_MODEL") else {
            eprintln!(
                "{test}: skipped, because HELVE_TEST_REAL_MODEL names no model; scripts/real-model installs one"
            );
            return None;
        };
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Path::new(&place);
        let mut server = Command::new(place.join("python/bin/python"))
            .args(["-c", SERVER])
            .arg(place.join("model.gguf"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the Python that scripts/real-model installs");
        let mut url = String::new();
        let said = BufReader::new(server.stdout.take().expect("its output")).read_line(&mut url);
        assert!(said.is_ok_and(|count| count > 0), "the server of the model does not start");
        Some(RealModel { url: url.trim_end().to_owned(), server, _alone: alone })
    }

    /// The process of the server.
    pub(crate) fn pid(&self) -> u32 {
        self.server.id()
    }
}

impl Drop for RealModel {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if matches!(self.server.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
