//! The probe on this machine, with real processes.

use helve_sandbox::{Expected, Outcome};

#[test]
fn what_holds_was_refused_what_succeeds_outside() {
    let findings = helve_sandbox::probe(None).unwrap();
    for sandbox in findings.sandboxes.iter().filter(|sandbox| sandbox.holds()) {
        let acts = || sandbox.acts.iter();
        let core = ["read-hidden", "write-hidden", "write-read-only", "signal-outside"];
        for act in acts().filter(|act| core.contains(&act.name)) {
            assert!(act.tried(), "{} {act:?}", sandbox.name);
        }
        for act in acts().filter(|act| act.expected == Expected::Refused) {
            assert!(matches!(act.inside, Outcome::Refused(_)), "{} {act:?}", sandbox.name);
        }
    }
}
