use crate::programs::cases::check;

#[test]
fn readers_do_what_their_cases_say() {
    check("readers.jsonl");
}
