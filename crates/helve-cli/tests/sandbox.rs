//! `helve sandbox` as its users meet it, on every sandbox that this machine has: in pipes and scripts, with its options, and
//! on a terminal that tmux makes. A sandbox that does not work here is said and left out, or fails the tests if
//! `HELVE_TEST_REQUIRE_SANDBOX` is 1.

#[cfg(test)]
mod support;
#[cfg(test)]
#[path = "prompt/tmux.rs"]
mod tmux;

#[cfg(test)]
mod sandbox {
    mod helper;
    mod options;
    mod session;
    mod streams;
    mod terminal;
    mod view;

    use std::process::Command;
    use std::sync::OnceLock;

    use crate::support::{Place, Ran};

    /// The sandboxes that work here.
    pub(crate) fn backends() -> &'static [&'static str] {
        static WORKING: OnceLock<Vec<&'static str>> = OnceLock::new();
        WORKING.get_or_init(|| {
            let place = Place::new();
            let works = |backend: &&str| {
                let ran = place.run(&["sandbox", "--backend", backend, "--", "true"]);
                let required =
                    std::env::var_os("HELVE_TEST_REQUIRE_SANDBOX").is_some_and(|value| value == "1");
                // Landlock alone does not hold root, whose workspace this is.
                let refuses_root = *backend == "landlock" && ran.stderr.contains("does not hold root");
                assert!(ran.code == 0 || refuses_root || !required, "{backend}: {ran:?}");
                if ran.code != 0 {
                    println!("skipped: the sandbox {backend} does not work here: {}", ran.stderr);
                }
                ran.code == 0
            };
            ["native", "landlock", "bwrap"].into_iter().filter(works).collect()
        })
    }

    /// The words of a command line.
    pub(crate) fn words<'a>(backend: &'a str, options: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
        [&["sandbox", "--backend", backend], options, &["--"], command].concat()
    }

    /// A place and a command in it.
    pub(crate) fn helve(place: &Place, backend: &str, options: &[&str], command: &[&str]) -> Command {
        let mut helve = place.helve();
        helve.args(words(backend, options, command));
        helve
    }

    /// Runs a text of the shell to its end.
    pub(crate) fn run(place: &Place, backend: &str, options: &[&str], script: &str) -> Ran {
        place.run(&words(backend, options, &["sh", "-c", script]))
    }
}
