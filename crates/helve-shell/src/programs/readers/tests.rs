use proptest::prelude::*;

use super::{awk, sed};
use crate::programs::cases::{any_args, check, understands};

#[test]
fn readers_do_what_their_cases_say() {
    check("readers.jsonl");
}

const PROGRAMS: &[&str] = &[
    "awk", "cat", "date", "dc", "diff", "fd", "file", "find", "git", "grep", "hostname", "jq", "less", "ls",
    "make", "rg", "sed", "sort", "tar", "tree", "uniq", "xxd",
];

proptest! {
    #[test]
    fn any_arguments_of_readers_are_understood(program in proptest::sample::select(PROGRAMS), args in any_args()) {
        understands(program, &args)?;
    }

    #[test]
    fn any_script_is_read(text in "[ -~\n]{0,40}") {
        let _ = sed::script_acts(&text);
        let _ = awk::program_acts(&text);
    }
}
