use std::sync::atomic::{AtomicUsize, Ordering};

use helve_core::{Explain, Network, SandboxReport};
use pretty_assertions::assert_eq;

use super::*;
use crate::probe::Lack;
use crate::probe::answer::tests::own_directory;

const LIMITS: ProcessLimits = ProcessLimits {
    open_files: 64,
    file_bytes: 1 << 20,
    memory_bytes: 1 << 30,
    processes: 64,
    cpu_seconds: 10,
    disk_bytes: 1 << 20,
    tmp_bytes: 1 << 20,
};

fn finding(name: &'static str, why: &str, mend: &str, passing: bool) -> SandboxFinding {
    let lack = Some(Lack { why: why.to_owned(), mend: mend.to_owned() });
    SandboxFinding { name, layers: Vec::new(), acts: Vec::new(), lack, passing }
}

fn short() -> Climbed {
    Climbed::Unclear(finding("native", "No process could be made.", "", true))
}

/// A ladder that finds one thing after another, and how often it has looked.
fn steps(state: &std::path::Path, answers: Vec<Climbed>) -> (Steps, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let climb =
        Box::new(move || Ok(answers[count.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1)].clone()));
    let view = View {
        workspace: state.to_owned(),
        read_only: Vec::new(),
        read_write: Vec::new(),
        hidden: Vec::new(),
        protected: Vec::new(),
        deny_read: Vec::new(),
        env: std::collections::BTreeMap::new(),
        network: Network::Off,
        system_calls: Vec::new(),
        explain: Explain::Rare,
        shell: "/bin/sh".into(),
    };
    let remember_in = Some(state.to_owned());
    let (best, taken) = (Mutex::new(None), Mutex::new(None));
    (Steps { view, limits: LIMITS, remember_in, climb, best, taken }, asked)
}

fn name(taken: Result<Arc<dyn ShellBackend>, ToolError>) -> Result<String, ErrorKind> {
    taken
        .map(|backend| backend.report())
        .map(|SandboxReport { backend, .. }| backend)
        .map_err(|error| error.kind)
}

#[test]
fn a_shortage_fails_one_call_and_is_asked_about_again() {
    let state = own_directory();
    let (steps, asked) =
        steps(state.path(), vec![short(), short(), Climbed::Holds(Rung::Native, Vec::new())]);
    for _ in 0..2 {
        assert_eq!(name(steps.take()), Err(ErrorKind::SandboxUnavailable));
        assert_eq!(steps.memory().unwrap().recall(), None, "nothing is concluded");
        assert!(steps.lock().is_none());
    }
    for _ in 0..2 {
        assert_eq!(name(steps.take()).unwrap(), "native");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    assert_eq!(steps.memory().unwrap().recall(), Some(Rung::Native));
}

#[test]
fn a_rung_that_fails_for_a_shortage_stays_the_rung() {
    let state = own_directory();
    let (steps, asked) = steps(
        state.path(),
        vec![Climbed::Holds(Rung::Native, Vec::new()), Climbed::Holds(Rung::Landlock, Vec::new())],
    );
    assert_eq!(name(steps.take()).unwrap(), "native");
    let failed = |errno| Err(crate::spawn::not_started(crate::sys::Stage::Process, errno, "The command"));
    for errno in [libc::EAGAIN, libc::ENOMEM, libc::EMFILE] {
        assert!(steps.watch(failed(errno)).is_err());
        assert_eq!(name(steps.take()).unwrap(), "native");
        assert_eq!(steps.memory().unwrap().recall(), Some(Rung::Native));
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    // What is refused for good is asked for anew.
    assert!(steps.watch(failed(libc::EPERM)).is_err());
    assert_eq!(steps.memory().unwrap().recall(), None);
    assert_eq!(name(steps.take()).unwrap(), "landlock");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn a_lesser_rung_is_not_used_for_ever() {
    let state = own_directory();
    let lesser = Climbed::Holds(Rung::Landlock, Vec::new());
    let (mut steps, asked) =
        steps(state.path(), vec![lesser.clone(), lesser, Climbed::Holds(Rung::Native, Vec::new())]);
    steps.remember_in = None;
    let first = steps.take().unwrap();
    let Some(long_ago) = Instant::now().checked_sub(LESSER) else {
        println!("skipped: this machine was started some minutes ago");
        return;
    };
    let age = || steps.lock().as_mut().unwrap().since = long_ago;
    assert!(Arc::ptr_eq(&first, &steps.take().unwrap()));
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    age();
    assert!(steps.known().is_none());
    assert!(steps.in_use(|_| true).is_some(), "it is still the one in use");
    assert!(Arc::ptr_eq(&first, &steps.take().unwrap()), "the same again");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    age();
    assert_eq!(name(steps.take()).unwrap(), "native");
    age();
    assert_eq!(name(steps.take()).unwrap(), "native");
    assert_eq!(asked.load(Ordering::Relaxed), 3, "the best is not asked for again");
}

#[test]
fn a_refusal_names_what_each_rung_lacks_and_what_mends_it() {
    let error = none_holds(&[
        finding("native", "No namespaces.", "do a", false),
        finding("landlock", "Too old.", "do b", false),
    ]);
    assert_eq!(error.kind, ErrorKind::SandboxUnavailable);
    assert!(error.message.ends_with("native: No namespaces. landlock: Too old."), "{error:?}");
    let hint = error.hint.unwrap();
    assert!(hint.starts_with("do a\ndo b\n") && hint.contains("helve doctor"), "{hint}");
}

#[test]
fn a_lesser_rung_that_refuses_says_why_the_better_was_not_taken() {
    let state = own_directory();
    let native = finding("native", "The mounts are refused: EACCES.", "Mount /dev.", false);
    let (steps, _) = steps(state.path(), vec![Climbed::Holds(Rung::Landlock, vec![native])]);
    steps.take().unwrap();
    let refusal = || ToolError::new(ErrorKind::SandboxUnavailable, "It does not hold root.").hint("chown");
    let error = steps.watch(Err(refusal())).unwrap_err();
    assert_eq!(
        error.message,
        "It does not hold root. The better sandbox native was not taken: The mounts are refused: EACCES."
    );
    assert_eq!(error.hint.as_deref(), Some("Mount /dev.\nOr else: chown"));
    // The second time nothing is taken any more, and other errors are none of the ladder's.
    assert_eq!(steps.watch(Err(refusal())).unwrap_err(), refusal());
    let other = || ToolError::failed("no");
    steps.take().unwrap();
    assert_eq!(steps.watch(Err(other())).unwrap_err(), other());
}
