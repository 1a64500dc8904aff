//! The engine as a whole: a patch and files in, files out.

use std::collections::BTreeMap;

use helve_core::files::Act;
use pretty_assertions::assert_eq;

use super::*;

mod any;
mod places;

type Tree = BTreeMap<String, Vec<u8>>;

fn tree(files: &[(&str, &str)]) -> Tree {
    files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

fn planned(tree: &Tree, text: &str) -> Result<Plan, Vec<Problem>> {
    let patch = parse(text).unwrap_or_else(|bad| panic!("{}\n{text}", bad.message));
    let known: HashMap<String, Known> = tree
        .iter()
        .map(|(path, bytes)| {
            let known = Known::File {
                bytes: Arc::new(bytes.clone()),
                id: ContentId(path.clone()),
                stale: path.starts_with("stale"),
                encoding: None,
            };
            (path.clone(), known)
        })
        .collect();
    plan(&patch, &known, &Cancel::never())
}

/// Makes the changes, as a bridge would.
fn patched(before: &Tree, text: &str) -> Result<Tree, Vec<Problem>> {
    let mut tree = before.clone();
    for change in planned(before, text)?.changes {
        match change.act {
            Act::Put(bytes) => drop(tree.insert(change.path, bytes.to_vec())),
            Act::Remove => assert!(tree.remove(&change.path).is_some()),
            Act::Move { to, content } => {
                let old = tree.remove(&change.path).unwrap();
                assert!(tree.insert(to, content.unwrap_or(old)).is_none());
            }
            other => panic!("no patch asks for {other:?}"),
        }
    }
    Ok(tree)
}

fn one(before: &str, body: &str) -> Result<String, Vec<Problem>> {
    let text = format!("*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch\n");
    patched(&tree(&[("f", before)]), &text).map(|tree| String::from_utf8(tree["f"].clone()).unwrap())
}

fn diffed(before: &str, body: &str) -> Result<String, Vec<Problem>> {
    let text = format!("--- a/f\n+++ b/f\n{body}");
    patched(&tree(&[("f", before)]), &text).map(|tree| String::from_utf8(tree["f"].clone()).unwrap())
}

fn troubles(outcome: Result<String, Vec<Problem>>) -> Vec<Trouble> {
    let trouble = |problem: Problem| match problem.fault {
        Fault::Hunk { trouble, .. } => trouble,
        other => panic!("{other:?}"),
    };
    outcome.unwrap_err().into_iter().map(trouble).collect()
}

#[test]
fn a_file_has_one_name_however_it_is_spelled() {
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+ONE\n*** Update File: .//./a.txt\n*** Move to: ./d//b\n\
                 @@\n-two\n+TWO\n*** End Patch";
    let after = patched(&tree(&[("a.txt", "one\ntwo\n")]), patch).unwrap();
    assert_eq!(after, tree(&[("d/b", "ONE\nTWO\n")]));
    assert_eq!(["./x", "/a//b/", "a/../b", ".", "/"].map(shortest), ["x", "/a/b/", "a/../b", ".", "/"]);
}

#[test]
fn endings_a_byte_order_mark_and_a_missing_last_ending_stay() {
    let cases = [
        ("one\r\ntwo\r\n", "@@\n one\n+mid\n two", "one\r\nmid\r\ntwo\r\n"),
        ("one\r\ntwo\nthree", "@@\n one\n-two\n+TWO\n three", "one\r\nTWO\r\nthree"),
        ("one\r\ntwo\rthree\nfour\r\n", "@@\n two\n-three\n+THREE\n four", "one\r\ntwo\rTHREE\r\nfour\r\n"),
        ("\u{feff}one\ntwo\n", "@@\n-one\n+ONE", "\u{feff}ONE\ntwo\n"),
        ("\u{feff}one\n", "@@\n+zero\n one", "\u{feff}zero\none\n"),
        ("one\ntwo", "@@\n-two\n+TWO", "one\nTWO"),
        ("one\ntwo", "@@\n two\n+three", "one\ntwo\nthree"),
        ("one\ntwo", "@@\n-two", "one\n"),
        ("one\r\ntwo", "@@\n+three", "one\r\ntwo\r\nthree"),
        ("", "@@\n+one", "one\n"),
    ];
    for (before, body, after) in cases {
        assert_eq!(one(before, body).as_deref(), Ok(after), "{before:?} {body:?}");
    }
}

#[test]
fn a_diff_says_how_a_file_ends_and_which_endings_it_has() {
    let cases = [
        ("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n", "a\nc\n"),
        ("a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n", "a\nc"),
        ("a\nb", "@@ -1,2 +1,2 @@\n-a\n+x\n b\n\\ No newline at end of file\n", "x\nb"),
        ("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "a\nc"),
        ("a\nb\n", "@@ -1,2 +1,2 @@\n-a\n+a\r\n b\n", "a\r\nb\n"),
        ("a\r\nb\r\n", "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n", "a\nb\r\n"),
        ("a\r\nb\r\n", "@@ -1,2 +1,3 @@\n a\n+x\n b\n", "a\r\nx\r\nb\r\n"),
        ("a\r\nb\r\n", "@@ -1,1 +1,2 @@\r\n a\r\n+x\r\n", "a\r\nx\r\nb\r\n"),
        // One hunk shows how its lines end, so the other one does too.
        ("a\r\nb\r\nc\n", "@@ -1 +1 @@\n-a\r\n+A\r\n@@ -2,0 +3,1 @@\n+x\n", "A\r\nb\r\nx\nc\n"),
        ("x\ry\nb\n", "@@ -1,2 +1,2 @@\n x\ry\n-b\n+c\n", "x\ry\nc\n"),
    ];
    for (before, body, after) in cases {
        assert_eq!(diffed(before, body).as_deref(), Ok(after), "{before:?} {body:?}");
    }
    let body = "@@ -1,2 +1,2 @@\n-a\n+x\n\\ No newline at end of file\n b\n";
    assert_eq!(troubles(diffed("a\nb\n", body)), [Trouble::NotTheEnd]);
}

#[test]
fn line_numbers_choose_and_where_they_are_wrong_the_lines_do() {
    let file = "a\nb\na\nb\na\nb\n";
    assert_eq!(diffed(file, "@@ -3,2 +3,2 @@\n-a\n+x\n b\n").as_deref(), Ok("a\nb\nx\nb\na\nb\n"));
    let far = "1\n2\n3\nkey\n5\n";
    assert_eq!(diffed(far, "@@ -90,1 +90,1 @@\n-key\n+KEY\n").as_deref(), Ok("1\n2\n3\nKEY\n5\n"));
    assert_eq!(diffed(far, "@@ -0,0 +0,0 @@\n-key\n+KEY\n").as_deref(), Ok("1\n2\n3\nKEY\n5\n"));
    // The second hunk is as far off as the first.
    let twice = "new\n1\nx\n2\nx\n3\n";
    let hunks = "@@ -1,1 +1,1 @@\n-1\n+one\n@@ -4,1 +4,1 @@\n-x\n+X\n";
    assert_eq!(diffed(twice, hunks).as_deref(), Ok("new\none\nx\n2\nX\n3\n"));
    assert_eq!(
        troubles(diffed(file, "@@ -90,1 +90,1 @@\n-a\n+x\n")),
        [Trouble::Ambiguous { lines: vec![1, 3, 5], count: 3 }]
    );
    assert_eq!(diffed("a\nb\n", "@@ -1,0 +2,1 @@\n+x\n").as_deref(), Ok("a\nx\nb\n"));
    assert_eq!(diffed("a\nb\n", "@@ -0,0 +1,1 @@\n+x\n").as_deref(), Ok("x\na\nb\n"));
    assert_eq!(troubles(diffed("a\n", "@@ -7,0 +8,1 @@\n+x\n")), [Trouble::Beyond { line: 7, lines: 1 }]);
}

#[test]
fn counts_that_are_wrong_are_repaired_from_the_lines() {
    let cases = [
        ("@@ -1,9 +1,9 @@\n a\n-b\n+B\n c\n", "a\nB\nc\nd\n"),
        ("@@ -1 +1 @@\n a\n-b\n+B\n c\n", "a\nB\nc\nd\n"),
        ("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n-- \n2.40.1\n", "a\nB\nc\nd\n"),
        ("@@ -2,1 +2,1 @@\n-b\n+B\n\n@@ -4,1 +4,1 @@\n-d\n+D\n", "a\nB\nc\nD\n"),
        ("@@ ... @@\n-b\n+B\n", "a\nB\nc\nd\n"),
        ("@@\n-b\n+B\n", "a\nB\nc\nd\n"),
    ];
    for (body, after) in cases {
        assert_eq!(diffed("a\nb\nc\nd\n", body).as_deref(), Ok(after), "{body}");
    }
    // Removed `-- x` and added `++ y` are no names of files while the counts want them.
    let sql = diffed("-- x\nb\n", "@@ -1,2 +1,2 @@\n--- x\n+++ y\n b\n");
    assert_eq!(sql.as_deref(), Ok("++ y\nb\n"));
}

#[test]
fn differences_that_do_not_count_are_passed_over_one_level_after_the_other() {
    let cases = [
        ("a  \nb\n", "@@\n a\n-b\n+B", "a  \nB\n"),
        ("say \u{201c}hi\u{201d}\nb\n", "@@\n say \"hi\"\n-b\n+B", "say \u{201c}hi\u{201d}\nB\n"),
        ("    if x:\n        y\n", "@@\n if x:\n-    y\n+    z\n+    w", "    if x:\n        z\n        w\n"),
        ("\tif x:\n\t\ty\n", "@@\n if x:\n-    y\n+    z", "\tif x:\n\t\tz\n"),
        ("a\n  b\n", "@@\n-  b\n+  c", "a\n  c\n"),
    ];
    for (before, body, after) in cases {
        assert_eq!(one(before, body).as_deref(), Ok(after), "{before:?}");
    }
    let text = "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch";
    let plan = planned(&tree(&[("f", "x\na \n")]), text).unwrap();
    assert_eq!(
        plan.inexact,
        [Inexact { path: "f".into(), hunk: 3, line: 2, why: Why::Text(Level::Trailing) }]
    );
}

#[test]
fn the_order_of_the_hunks_leaves_one_place_or_they_are_refused() {
    let file = "a\nb\na\nc\na\n";
    assert_eq!(one(file, "@@\n-a\n+1\n@@\n-a\n+2\n@@\n-a\n+3").as_deref(), Ok("1\nb\n2\nc\n3\n"));
    assert_eq!(one(file, "@@\n-b\n+B\n@@\n-a\n+2\n@@\n-c\n+C").as_deref(), Ok("a\nB\n2\nC\na\n"));
    assert_eq!(
        one(file, "@@\n-c\n+C\n@@\n-b\n+B").as_deref(),
        Ok("a\nB\na\nC\na\n"),
        "not in the file's order"
    );
    assert_eq!(
        troubles(one(file, "@@\n-a\n+1\n@@\n-a\n+2")),
        [
            Trouble::Ambiguous { lines: vec![1, 3, 5], count: 3 },
            Trouble::Ambiguous { lines: vec![1, 3, 5], count: 3 }
        ]
    );
    assert_eq!(one(file, "@@\n-a\n+z\n*** End of File").as_deref(), Ok("a\nb\na\nc\nz\n"));
    // Context may be shown twice, changes may not.
    assert_eq!(one("1\n2\n3\n", "@@\n-1\n+x\n 2\n@@\n 2\n-3\n+y").as_deref(), Ok("x\n2\ny\n"));
    assert_eq!(troubles(one("1\n2\n", "@@\n-1\n-2\n+x\n@@\n-2\n+y")), [Trouble::Overlap { other: 3 }]);
}

#[test]
fn headers_lead_into_the_block_that_they_open() {
    let file = "class A:\n    def f(self):\n        pass\n\nclass B:\n    def f(self):\n        pass\n";
    let change = "-        pass\n+        return 1";
    let second = file.replacen(
        "class B:\n    def f(self):\n        pass",
        "class B:\n    def f(self):\n        return 1",
        1,
    );
    let first = file.replacen("pass", "return 1", 1);
    assert_eq!(one(file, &format!("@@ class B:\n{change}")).as_deref(), Ok(&*second));
    assert_eq!(one(file, &format!("@@ class A:\n{change}")).as_deref(), Ok(&*first));
    assert_eq!(one(file, &format!("@@ class A:\n@@     def f(self):\n{change}")).as_deref(), Ok(&*first));
    assert_eq!(one(file, &format!("@@ class B:\n@@ def f(self):\n{change}")).as_deref(), Ok(&*second));
    assert_eq!(
        troubles(one(file, &format!("@@     def f(self):\n{change}"))),
        [Trouble::Ambiguous { lines: vec![3, 7], count: 2 }]
    );
    assert_eq!(troubles(one(file, "@@ class C:\n+x")), [Trouble::NoHeader("class C:".into())]);
    assert_eq!(one("fn a()\n{\n}\n", "@@ fn a()\n+// x").as_deref(), Ok("fn a()\n// x\n{\n}\n"));
    assert_eq!(
        troubles(one("x\nx\n", "@@ x\n+y")),
        [Trouble::ManyHeaders { header: "x".into(), lines: vec![1, 2], count: 2 }]
    );
    // The header may be shown as the first line of the hunk again.
    assert_eq!(
        one("def f():\n  a\n", "@@ def f():\n def f():\n-  a\n+  b").as_deref(),
        Ok("def f():\n  b\n")
    );
}

#[test]
fn a_file_goes_through_all_its_sections() {
    let text = "*** Begin Patch\n*** Update File: a\n@@\n-1\n+2\n*** Update File: a\n*** Move to: b\n@@\n-2\n+3\n\
                *** Update File: b\n@@\n-3\n+4\n*** Add File: a\n+new\n*** End Patch";
    assert_eq!(patched(&tree(&[("a", "1\n")]), text), Ok(tree(&[("a", "new\n"), ("b", "4\n")])));
    let text = "*** Begin Patch\n*** Delete File: a\n*** Add File: a\n+2\n*** End Patch";
    assert_eq!(patched(&tree(&[("a", "1\n")]), text), Ok(tree(&[("a", "2\n")])));
    let swap = "diff --git a/x b/t\nrename from x\nrename to t\ndiff --git a/y b/x\nrename from y\nrename to x\n\
                diff --git a/t b/y\nrename from t\nrename to y\n";
    assert_eq!(patched(&tree(&[("x", "1"), ("y", "2")]), swap), Ok(tree(&[("x", "2"), ("y", "1")])));
    let before_it = "*** Begin Patch\n*** Add File: b\n+x\n*** Delete File: b\n*** Update File: a\n*** Move to: b\n*** End Patch";
    assert_eq!(patched(&tree(&[("a", "1\n")]), before_it), Ok(tree(&[("b", "1\n")])));
}

#[test]
fn a_move_is_one_change_that_keeps_the_file() {
    let text = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch";
    let plan = planned(&tree(&[("a", "1\n")]), text).unwrap();
    assert_eq!(plan.changes.len(), 1);
    assert_eq!(plan.changes[0].act, Act::Move { to: "b".into(), content: None });
}

#[test]
fn faults_of_files_are_all_told() {
    let text = "*** Begin Patch\n*** Update File: gone\n@@\n-a\n+b\n*** Delete File: missing\n*** Update File: a\n@@\n-no\n+b\n\
                *** Delete File: stale.txt\n*** End Patch";
    let problems = patched(&tree(&[("a", "1\n"), ("stale.txt", "x")]), text).unwrap_err();
    let told: Vec<(&str, usize)> = problems.iter().map(|problem| (&*problem.path, problem.line)).collect();
    assert_eq!(told, [("gone", 2), ("missing", 6), ("a", 8), ("stale.txt", 11)]);
    let exists = "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n";
    assert_eq!(patched(&tree(&[("a", "1\n")]), exists).unwrap_err()[0].fault, Fault::Exists);
    let more = "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n";
    assert_eq!(patched(&tree(&[("a", "1\n2\n")]), more).unwrap_err()[0].fault, Fault::NotAll);
    assert_eq!(patched(&tree(&[("a", "1\n")]), more), Ok(Tree::new()));
}

#[test]
fn what_is_no_patch_is_refused_with_its_line() {
    let cases = [
        ("", "Provide a patch input."),
        ("hello", "The first line of the patch must be '*** Begin Patch'"),
        ("*** Begin Patch\n*** Add File: a\n+x", "The last line of the patch must be '*** End Patch'"),
        ("*** Begin Patch\n*** End Patch", "No files were modified: the patch has no section."),
        (
            "*** Begin Patch\n*** Add File: a\nx\n*** End Patch",
            "Invalid patch hunk at line 3: 'x' must start with '+'",
        ),
        (
            "*** Begin Patch\n*** Add File:\n*** End Patch",
            "Invalid patch hunk at line 2: '*** Add File:' names no file.",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n*** End Patch",
            "Invalid patch hunk at line 2: Update file hunk for path 'a' is empty",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n@@\n*** End Patch",
            "Invalid patch hunk at line 3: Update hunk does not contain any lines",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n@@\nx\n*** End Patch",
            "Invalid patch hunk at line 4: Unexpected line found in update hunk: 'x'.",
        ),
        (
            "*** Begin Patch\n*** Frobnicate File: a\n*** End Patch",
            "Invalid patch hunk at line 2: '*** Frobnicate File: a' is not a valid hunk header.",
        ),
        (
            "*** Begin Patch\n*** Delete File: a\n+x\n*** End Patch",
            "Invalid patch hunk at line 3: '+x' is not a valid hunk header.",
        ),
        (
            "diff --git a/x b/x\nGIT binary patch\n",
            "Invalid patch hunk at line 2: the patch of 'x' is binary",
        ),
        (
            "diff --git a/x b/x\nBinary files a/x and b/x differ\n",
            "Invalid patch hunk at line 2: the patch of 'x' is binary",
        ),
        (
            "diff --git a/x b/y\ncopy from x\ncopy to y\n",
            "Invalid patch hunk at line 2: a copy cannot be applied.",
        ),
        (
            "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+y\n",
            "Invalid patch hunk at line 3: 'x' is a symbolic link",
        ),
        ("--- a/x\n+++ b/x\n@@@ -1 -1 +1 @@@\n", "Invalid patch hunk at line 3: a combined diff"),
        (
            "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\nb\n",
            "Invalid patch hunk at line 5: 'b' is not a line of a hunk.",
        ),
        ("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n y\n", "Invalid patch hunk at line 3: the file is new"),
        ("--- a/x\n+++ b/x\n", "No files were modified: the diff has no hunk."),
    ];
    for (text, message) in cases {
        let bad = parse(text).expect_err(text);
        assert!(bad.message.starts_with(message), "{text}\n{}", bad.message);
    }
}

#[test]
fn wrappers_are_taken_off() {
    let bare = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch";
    let wrapped = [
        format!("<<EOF\n{bare}\nEOF\n"),
        format!("<<'EOF'\n{bare}\nEOF"),
        format!("apply_patch <<\"PATCH\"\n{bare}\nPATCH\n\n"),
        format!("```diff\n{bare}\n```"),
        format!("\n\n  {bare}  \n"),
        bare.replace('\n', "\r\n"),
        format!("{bare}\n*** Begin Patch\n*** End Patch"),
        "*** Begin Patch\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n*** End Patch".to_owned(),
        "From: me\n\nA letter.\n---\n a | 1 +\n\ndiff --git a/a b/a\nnew file mode 100644\nindex 0..1\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n-- \n2.4\n".to_owned(),
    ];
    for text in wrapped {
        assert_eq!(patched(&Tree::new(), &text), Ok(tree(&[("a", "x\n")])), "{text}");
    }
}

#[test]
fn a_million_equal_lines_and_many_hunks_end() {
    let file = "x\n".repeat(300_000);
    let long = format!("@@\n{}-y\n+z", " x\n".repeat(50_000));
    assert_eq!(troubles(one(&file, &long)), [Trouble::Nowhere]);
    let many = "@@\n-x\n+y\n".repeat(3_000);
    let told = troubles(one(&file, many.trim_end()));
    assert!(told.contains(&Trouble::TooMuch), "{:?}", &told[..3]);
}
