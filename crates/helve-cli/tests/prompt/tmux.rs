//! A terminal of a test's own: a tmux server on a socket of its own, which ends with the test.

#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::support::Place;

/// How long something may take to appear on the screen.
const PATIENCE: Duration = Duration::from_secs(30);

/// One program on one terminal.
pub(crate) struct Screen {
    socket: PathBuf,
}

/// Whether tmux is here; a test that needs it is skipped otherwise.
fn tmux_works() -> bool {
    let works = Command::new("tmux").arg("-V").output().is_ok_and(|output| output.status.success());
    let required = std::env::var_os("HELVE_TEST_PEERS").is_some_and(|value| value == "1");
    assert!(works || !required, "tmux is not installed, and HELVE_TEST_PEERS is 1");
    if !works {
        println!("skipped: tmux is not installed");
    }
    works
}

impl Screen {
    /// Runs `helve` with these arguments, which a shell reads, and then shows its exit code.
    pub(crate) fn start(place: &Place, arguments: &str, size: (u16, u16)) -> Option<Screen> {
        Self::start_after(place, "true", arguments, size)
    }

    /// The same, after another command.
    pub(crate) fn start_after(
        place: &Place,
        before: &str,
        arguments: &str,
        size: (u16, u16),
    ) -> Option<Screen> {
        let script = format!("{before}; {} {arguments}; echo EXIT:$?; exec sleep 600", helve());
        Self::run(place, &["sh", "-c", &script], size)
    }

    /// The same, from a shell in which it can be stopped and go on.
    pub(crate) fn start_with_jobs(place: &Place, arguments: &str, size: (u16, u16)) -> Option<Screen> {
        let script = format!(
            "{} {arguments}; code=$?; if [ $code = 147 ] || [ $code = 148 ]; then echo STOPPED:; read -r line; $line >/dev/null; code=$?; fi; \
             echo EXIT:$code; exec sleep 600",
            helve()
        );
        Self::run(place, &["bash", "-mc", &script], size)
    }

    /// The same, as a job in the background of a shell that waits for it.
    pub(crate) fn start_in_background(place: &Place, arguments: &str, size: (u16, u16)) -> Option<Screen> {
        let script = format!("{} {arguments} & wait $!; echo EXIT:$?; exec sleep 600", helve());
        Self::run(place, &["bash", "-mc", &script], size)
    }

    fn run(place: &Place, command: &[&str], (columns, rows): (u16, u16)) -> Option<Screen> {
        if !tmux_works() {
            return None;
        }
        static COUNTER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNTER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let screen = Screen { socket: place.root().join(format!("tmux-{count}")) };
        let plain = place.helve();
        let mut tmux = Command::new("tmux");
        tmux.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        tmux.env("TERM", "xterm").env("LC_ALL", "C.UTF-8").env("SHELL", "/bin/sh").env("NO_COLOR", "1");
        tmux.current_dir(place.workspace()).arg("-S").arg(&screen.socket);
        let (columns, rows) = (columns.to_string(), rows.to_string());
        tmux.args(["-u", "-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows]).args(command);
        let output = tmux.output().unwrap();
        assert!(output.status.success(), "tmux does not start: {output:?}");
        Some(screen)
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let output = Command::new("tmux")
            .env_clear()
            .arg("-S")
            .arg(&self.socket)
            .arg("-u")
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "tmux {args:?}: {output:?}");
        output
    }

    /// What is on the screen, each row without the spaces at its end.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p"]).stdout).unwrap()
    }

    /// Types text key by key, as a hand does.
    pub(crate) fn keys(&self, text: &str) {
        for ch in text.chars() {
            match ch {
                '\n' => self.key("Enter"),
                ch => drop(self.tmux(&["send-keys", "-l", &ch.to_string()])),
            }
            std::thread::sleep(Duration::from_millis(60));
        }
    }

    /// One key by the name that tmux gives it.
    pub(crate) fn key(&self, name: &str) {
        self.tmux(&["send-keys", name]);
        std::thread::sleep(Duration::from_millis(60));
    }

    /// Pastes with the marks that the program asked for.
    pub(crate) fn paste(&self, text: &str) {
        self.tmux(&["set-buffer", text]);
        self.tmux(&["paste-buffer", "-p", "-d"]);
    }

    /// Pastes as a terminal that knows no marks does.
    pub(crate) fn paste_bare(&self, text: &str) {
        self.tmux(&["set-buffer", text]);
        self.tmux(&["paste-buffer", "-d"]);
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// Waits until the screen shows a text.
    #[track_caller]
    pub(crate) fn wait_for(&self, part: &str) {
        self.wait_until(part, |text| text.contains(part));
    }

    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, so: impl Fn(&str) -> bool) {
        let start = Instant::now();
        loop {
            let text = self.text();
            if so(&text) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "waited in vain for {what:?}:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks the program on the terminal to end, from outside.
    pub(crate) fn end_program(&self) {
        self.signal_program("TERM");
    }

    /// Sends the program on the terminal a signal, from outside.
    pub(crate) fn signal_program(&self, signal: &str) {
        let shell = String::from_utf8(self.tmux(&["display-message", "-p", "#{pane_pid}"]).stdout).unwrap();
        let shell = shell.trim();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        let sent = Command::new("kill").args([&format!("-{signal}"), children.trim()]).status().unwrap();
        assert!(sent.success(), "{children}");
    }

    /// The terminal is as a shell expects it: the usual screen, visible cursor, no marks around pastes, cooked mode.
    #[track_caller]
    pub(crate) fn is_as_before(&self) {
        let ask = "#{alternate_on} #{cursor_flag} #{pane_tty}";
        let answer = String::from_utf8(self.tmux(&["display-message", "-p", ask]).stdout).unwrap();
        let (flags, tty) = answer.trim().rsplit_once(' ').unwrap();
        assert_eq!(flags, "0 1", "alternate screen, cursor");
        let modes = modes(tty);
        let words: Vec<&str> = modes.split_whitespace().map(|word| word.trim_end_matches(';')).collect();
        for mode in ["icanon", "isig", "echo", "opost"] {
            assert!(words.contains(&mode), "{mode}: {modes}");
        }
    }

    /// Whether keys come to the program one by one and as they are.
    pub(crate) fn is_raw(&self) -> bool {
        let tty = String::from_utf8(self.tmux(&["display-message", "-p", "#{pane_tty}"]).stdout).unwrap();
        modes(tty.trim()).split_whitespace().any(|word| word.trim_end_matches(';') == "-icanon")
    }
}

fn modes(tty: &str) -> String {
    let modes = Command::new("stty").args(["-a", "-F", tty]).output().unwrap();
    String::from_utf8(modes.stdout).unwrap()
}

fn helve() -> String {
    format!("'{}'", env!("CARGO_BIN_EXE_helve"))
}

/// Ends the server of this test and what runs on its terminal.
impl Drop for Screen {
    fn drop(&mut self) {
        let _ = Command::new("tmux").env_clear().arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}
