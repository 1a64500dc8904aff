//! Which of several places a hunk gets, and what is told of it.

use pretty_assertions::assert_eq;

use super::*;

/// So many blocks that look alike but for their first line.
fn blocks(count: usize) -> String {
    (1..=count)
        .map(|n| format!("case {n}:\n    if x:\n        total = 0\n        return total\n\n"))
        .collect()
}

/// What the diff makes of a file, with why each hunk is told.
fn told(before: &str, body: &str) -> (String, Vec<(usize, Why)>) {
    let text = format!("--- a/f\n+++ b/f\n{body}");
    let plan = planned(&tree(&[("f", before)]), &text).unwrap();
    let after = plan.files[0].after.as_ref().unwrap();
    let why = plan.inexact.iter().map(|found| (found.line, found.why)).collect();
    (String::from_utf8(after.to_vec()).unwrap(), why)
}

#[test]
fn a_number_proves_nothing_where_the_hunks_around_it_were_shifted() {
    let (first, last) =
        ("@@ -11,1 +11,1 @@\n-case 3:\n+case three:\n", "@@ -76,1 +76,1 @@\n-case 16:\n+case xvi:\n");
    let alike =
        "@@ -47,3 +47,3 @@\n     if x:\n-        total = 0\n+        total = 1\n         return total\n";
    let shifted = format!("{}{}", "# new\n".repeat(5), blocks(20));
    // The like of it stands at the old number, and the place as far off as the first hunk fits too.
    assert_eq!(
        troubles(diffed(&shifted, &format!("{first}{alike}"))),
        [Trouble::Ambiguous { lines: vec![47, 52], count: 2 }]
    );
    assert_eq!(
        troubles(diffed(&shifted, &format!("{alike}{last}"))),
        [Trouble::Ambiguous { lines: vec![47, 52], count: 2 }]
    );
    // Hunks on both sides agree.
    let wanted = shifted
        .replace("case 3:", "case three:")
        .replace("case 16:", "case xvi:")
        .replace("case 10:\n    if x:\n        total = 0", "case 10:\n    if x:\n        total = 1");
    let all = format!("{first}{alike}{last}");
    assert_eq!(told(&shifted, &all), (wanted, vec![(52, Why::Place(Remark::Number))]));
    // Other lines than a multiple of the blocks: there is one place that the numbers can mean.
    let shifted = format!("{}{}", "# new\n".repeat(7), blocks(20));
    let wanted = shifted
        .replace("case 3:", "case three:")
        .replace("case 10:\n    if x:\n        total = 0", "case 10:\n    if x:\n        total = 1");
    let two = format!("{first}{alike}");
    assert_eq!(told(&shifted, &two), (wanted, vec![(54, Why::Place(Remark::Number))]));
    // What was at the place is gone, and its like at the old number is no stand-in for it.
    let shifted = format!("{}{}", "# new\n".repeat(5), blocks(20))
        .replace("case 10:\n    if x:\n        total = 0", "case 10:\n    if x:\n        total = 7");
    assert!(matches!(troubles(diffed(&shifted, &all))[..], [Trouble::Ambiguous { count: 19, .. }]));
}

#[test]
fn numbers_that_all_hold_decide_without_a_word() {
    let file = blocks(20);
    let body = "@@ -11,1 +11,1 @@\n-case 3:\n+case three:\n@@ -47,3 +47,3 @@\n     if x:\n-        total = 0\n\
                +        total = 1\n         return total\n";
    let wanted = file
        .replace("case 3:", "case three:")
        .replace("case 10:\n    if x:\n        total = 0", "case 10:\n    if x:\n        total = 1");
    assert_eq!(told(&file, body), (wanted, vec![]));
    let many = "x\n".repeat(300_000);
    assert!(diffed(&many, "@@ -1000,2 +1000,2 @@\n-x\n+y\n x\n").is_ok());
}

#[test]
fn lines_without_context_go_as_far_as_the_hunks_beside_them() {
    let numbered = |from: usize, to: usize| (from..=to).map(|n| format!("l{n}\n")).collect::<String>();
    let added = "@@ -45,0 +46 @@\n+INS\n";
    let (five, thirty) = ("@@ -5 +5 @@\n-l5\n+L5\n", "@@ -30 +30 @@\n-l30\n+L30\n");
    // Three lines came in above line 5, and three went before line 30.
    let file = format!("n\nn\nn\n{}{}", numbered(1, 20), numbered(24, 50));
    let file = file.replace("l24\n", "l21\nl22\nl23\nl24\n").replace("l25\nl26\nl27\n", "");
    let wanted = |file: &str| file.replace("l5\n", "L5\n").replace("l30\n", "L30\n");
    let made = told(&file, &format!("{five}{thirty}{added}"));
    assert_eq!(made, (wanted(&file).replace("l45\n", "l45\nINS\n"), vec![]));
    // All were shifted alike: told, for nothing shows that this is the place.
    let file = format!("n\nn\nn\n{}", numbered(1, 50));
    let made = told(&file, &format!("{five}{thirty}{added}"));
    let after = wanted(&file).replace("l45\n", "l45\nINS\n");
    assert_eq!(made, (after, vec![(49, Why::Place(Remark::Number))]));
    // Shifted behind it and not before, or at its other side.
    let file = format!("{}n\nn\nn\n{}", numbered(1, 40), numbered(41, 50));
    let behind = "@@ -48 +49 @@\n-l48\n+L48\n";
    assert_eq!(
        troubles(diffed(&file, &format!("{five}{added}{behind}"))),
        [Trouble::Adrift { line: 45, before: 0, behind: 3 }]
    );
}

#[test]
fn a_hunk_outside_of_its_block_or_not_at_the_end_is_told() {
    let file = "def f():\n    y = 0\n\ndef g():\n    x = 0\n";
    let why = |body: &str| {
        let text = format!("*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch\n");
        let plan = planned(&tree(&[("f", file)]), &text).unwrap();
        plan.inexact.iter().map(|found| (found.line, found.why)).collect::<Vec<_>>()
    };
    assert_eq!(why("@@ def f():\n-    x = 0\n+    x = 1"), [(5, Why::Place(Remark::Header))]);
    assert_eq!(why("@@ def f():\n-    y = 0\n+    y = 1"), []);
    assert_eq!(why("@@ def f():\n def f():\n-    y = 0\n+    y = 1"), []);
    // A line that opens no block only says what is above.
    assert_eq!(why("@@     y = 0\n-    x = 0\n+    x = 1"), []);
    assert_eq!(why("@@\n-    y = 0\n+    y = 1\n*** End of File"), [(2, Why::Place(Remark::End))]);
    assert_eq!(why("@@\n-    x = 0\n+    x = 1\n*** End of File"), []);
}

#[test]
fn a_header_that_the_hunk_shows_again_is_not_passed_over_for_a_later_one() {
    let file = "class A:\n    def f(self):\n        pass\n\nclass B:\n    def f(self):\n        pass\n";
    let body = "@@     def f(self):\n     def f(self):\n-        pass\n+        return 1";
    assert_eq!(troubles(one(file, body)), [Trouble::Ambiguous { lines: vec![2, 6], count: 2 }]);
}

#[test]
fn a_header_at_very_many_lines_that_open_nothing_ends() {
    let file = "}\n".repeat(200_000);
    assert_eq!(troubles(one(&file, "@@ }\n-zzz\n+y")), [Trouble::Nowhere]);
}
