//! There is no side door: what would run a tool without the pipeline does not compile.

#[test]
fn no_way_around_the_pipeline() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
}
