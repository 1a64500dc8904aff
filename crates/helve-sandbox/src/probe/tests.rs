use super::*;

const REFUSED: Outcome = Outcome::Refused(libc::EPERM);
const SHORT: Outcome = Outcome::Refused(libc::EAGAIN);

/// What a sandbox that holds makes of the acts.
fn good() -> Vec<ActFinding> {
    let found = |act: Act| ActFinding {
        name: act.name(),
        about: act.about(),
        expected: act.expected("native"),
        outside: Outcome::Done,
        inside: if act.expected("native") == Expected::Done { Outcome::Done } else { REFUSED },
    };
    Act::all().map(found).collect()
}

/// The same, but for one act.
fn but(act: Act, outside: Outcome, inside: Outcome) -> Verdict {
    let mut acts = good();
    let one = &mut acts[act as usize];
    (one.outside, one.inside) = (outside, inside);
    verdict(&acts)
}

fn lacks(verdict: Verdict, why: &str) {
    let Verdict::Lacks(lack) = verdict else { panic!("{verdict:?}") };
    assert!(lack.why.contains(why), "{lack:?}");
}

#[test]
fn a_promise_that_is_not_kept_is_a_lack() {
    assert_eq!(verdict(&good()), Verdict::Holds);
    for inside in [Outcome::Done, Outcome::Unknown] {
        for outside in [Outcome::Done, REFUSED, Outcome::Unknown] {
            lacks(but(Act::Loopback, outside, inside), "can connect to a port");
        }
    }
    for inside in [REFUSED, Outcome::Unknown] {
        lacks(but(Act::WriteWorkspace, Outcome::Done, inside), "cannot make a file");
    }
}

#[test]
fn an_act_that_fails_outside_too_proves_nothing() {
    for act in LEAST {
        lacks(but(act, REFUSED, REFUSED), "not shown to hold");
    }
    // A machine without such a thing has none to protect, and nobody counts it as refused.
    assert_eq!(but(Act::HypervisorSocket, REFUSED, REFUSED), Verdict::Holds);
    let seen =
        |outside, inside| ActFinding { outside, inside, ..good()[Act::HypervisorSocket as usize].clone() };
    assert!(seen(Outcome::Done, REFUSED).refused() && seen(Outcome::Done, REFUSED).tried());
    for outside in [REFUSED, Outcome::Unknown] {
        assert!(!seen(outside, REFUSED).refused() && !seen(outside, REFUSED).tried());
    }
    assert!(!seen(Outcome::Done, Outcome::Done).refused());
}

#[test]
fn what_a_shortage_does_is_neither_held_against_a_sandbox_nor_counted_for_it() {
    for verdict in [
        but(Act::WriteWorkspace, Outcome::Done, SHORT),
        but(Act::TraceChild, Outcome::Done, SHORT),
        but(Act::ReadHidden, SHORT, REFUSED),
        but(Act::ReadHidden, Outcome::Unknown, REFUSED),
    ] {
        assert!(matches!(verdict, Verdict::Unclear(_)), "{verdict:?}");
    }
    // What is open is open.
    let mut acts = good();
    acts[Act::TraceChild as usize].inside = SHORT;
    acts[Act::Loopback as usize].inside = Outcome::Done;
    lacks(verdict(&acts), "can connect");
}

fn finding(rung: Rung, lacking: bool, passing: bool) -> (Rung, SandboxFinding) {
    let lack = lacking.then(|| Lack::new("why", "mend"));
    (rung, SandboxFinding { name: rung.name(), layers: Vec::new(), acts: Vec::new(), lack, passing })
}

#[test]
fn only_what_lasts_leads_to_a_lesser_rung() {
    let landlock = || finding(Rung::Landlock, false, false);
    let climb = |native, landlock| best([native, landlock].into_iter());
    assert_eq!(
        climb(finding(Rung::Native, false, false), landlock()),
        Climbed::Holds(Rung::Native, Vec::new())
    );
    let native = finding(Rung::Native, true, false);
    let better = vec![native.1.clone()];
    assert_eq!(climb(native, landlock()), Climbed::Holds(Rung::Landlock, better));
    let (_, short) = finding(Rung::Native, true, true);
    assert_eq!(climb((Rung::Native, short.clone()), landlock()), Climbed::Unclear(short));
    let (native, landlock) = (finding(Rung::Native, true, false), finding(Rung::Landlock, true, false));
    assert_eq!(climb(native.clone(), landlock.clone()), Climbed::Nothing(vec![native.1, landlock.1]));
}
