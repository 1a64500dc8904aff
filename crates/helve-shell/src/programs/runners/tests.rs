use crate::programs::cases::check;

#[test]
fn runners_do_what_their_cases_say() {
    check("runners.jsonl");
}
