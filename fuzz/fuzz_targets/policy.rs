//! Configuration and guard: no panic, and a grant is offered only with a refusal or a question.
#![no_main]

use std::path::Path;

use helve_core::Verdict;
use helve_policy::Policy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (config, command) = input;
    if let Ok(policy) = Policy::from_toml(config) {
        let decision = policy.check_text(command, Path::new("/project"));
        assert!(decision.grant.is_none() || decision.verdict != Verdict::Allow);
    }
});
