//! The guard where it looks at the disk, and where the answer depends on the workspace: links, names that look like
//! options, deletion inside the workspace, bare runs.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use helve_core::{CommandUse, Verdict};
use helve_policy::{Judgement, Policy};

/// A workspace beside a directory `outside`.
fn workspace() -> (tempfile::TempDir, PathBuf) {
    let around = tempfile::tempdir().unwrap();
    let root = around.path().canonicalize().unwrap();
    let workspace = root.join("project");
    for directory in ["project/src", "project/build/deep", "project/.git/hooks", "outside/data"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(workspace.join("notes.txt"), "x").unwrap();
    symlink(root.join("outside"), workspace.join("away")).unwrap();
    symlink("../outside/data", workspace.join("relative")).unwrap();
    symlink("src", workspace.join("inner")).unwrap();
    symlink(workspace.join("src"), workspace.join("absolute")).unwrap();
    symlink("round", workspace.join("round")).unwrap();
    (around, workspace)
}

fn judge(policy: &str, command: &str, workspace: &Path, contained: bool) -> Judgement {
    let command = CommandUse { command: command.to_owned(), working_dir: None };
    Policy::from_toml(policy).unwrap().judge(&command, workspace, contained)
}

fn verdict(policy: &str, command: &str, workspace: &Path) -> Verdict {
    judge(policy, command, workspace, true).decision.verdict
}

#[test]
fn links_that_exist_are_followed() {
    let (_around, workspace) = workspace();
    let restricted = "tools.restrict_to_workspace = true";
    for command in [
        "cat away/secret",
        "cat away",
        "cat relative/x",
        "cat relative/not/there",
        "echo x > away/y",
        "cat inner/../away/x",
        "cd away && cat x",
        "cat round/x",
        "cp notes.txt away",
        "ls relative",
        "mytool away/x",
        "mytool --file=relative/x",
        "cat away/../x",
    ] {
        let judgement = judge(restricted, command, &workspace, true);
        assert_eq!(judgement.decision.verdict, Verdict::Deny, "{command}");
        assert_eq!(judgement.decision.rule, "tools.exec.restrict_to_workspace", "{command}");
    }
    for command in [
        "cat inner/lib.rs",
        "cat absolute/x",
        "ls inner",
        "cat inner/../notes.txt",
        "cat new/file",
        "echo x > src/y",
    ] {
        assert_eq!(verdict(restricted, command, &workspace), Verdict::Allow, "{command}");
    }
    let opened =
        format!("{restricted}\nview.read_only = ['{}']", workspace.with_file_name("outside").display());
    assert_eq!(verdict(&opened, "cat away/x", &workspace), Verdict::Allow);
}

#[test]
fn a_workspace_behind_a_link_is_still_inside_itself() {
    let (_around, workspace) = workspace();
    let link = workspace.with_file_name("link");
    symlink(&workspace, &link).unwrap();
    let restricted = "tools.restrict_to_workspace = true";
    assert_eq!(verdict(restricted, "cat notes.txt src/x", &link), Verdict::Allow);
    assert_eq!(verdict(restricted, "cat away/x", &link), Verdict::Deny);
}

#[test]
fn a_key_lets_literal_paths_inside_the_workspace_be_deleted() {
    let (_around, workspace) = workspace();
    let key = "tools.exec.delete_inside = true";
    for command in [
        "rm -rf build",
        "rm -rf ./build src/x",
        "rm -r 'build/deep'",
        "cd build && rm -rf deep",
        "rm -rf build/*",
        "rm -rf not/there",
        "true && rm -rf build || true",
        "d=build; rm -rf $d",
        "rm -rf inner",
    ] {
        assert_eq!(verdict(key, command, &workspace), Verdict::Allow, "{command}");
        assert_eq!(verdict("", command, &workspace), Verdict::Deny, "{command} without the key");
    }
    let itself = workspace.display().to_string();
    for command in [
        "rm -rf .",
        "rm -rf ./",
        "rm -rf *",
        "rm -rf ./*",
        "rm -rf .*",
        "rm -rf \"$PWD\"",
        &format!("rm -rf {itself}"),
        &format!("rm -rf {itself}/"),
        "rm -rf .git",
        "rm -rf .git/hooks",
        "rm -rf .git/*",
        "rm -rf src/.git",
        "rm -rf build/../src",
        "rm -rf ..",
        "rm -rf ../outside",
        "rm -rf /",
        "rm -rf ~",
        "rm -rf $UNKNOWN",
        "rm -rf build $UNKNOWN",
        "rm -rf \"build/$UNKNOWN\"",
        "rm -rf $(ls)",
        "rm -rf away/data",
        "rm -rf relative/x",
        "ls | xargs rm -rf",
        "ls | xargs rm -rf build",
        "find . -exec rm -rf {} +",
        "cd .. && rm -rf project",
        "cd $UNKNOWN && rm -rf build",
        "ssh host rm -rf build",
        "$UNKNOWN -rf build",
        "rm -rf build; rm -rf .",
        "python3 -c 'import shutil; shutil.rmtree(x)'",
    ] {
        let judgement = judge(key, command, &workspace, true);
        assert_eq!(judgement.decision.verdict, Verdict::Deny, "{command}");
        assert_eq!(judgement.decision.rule, "guard.rm-recursive", "{command}");
    }
}

const LIST: &str = "[[rules]]\nverdict = \"allow\"\ncommand = [\"sort *\", \"touch *\", \"cat *\"]";

#[test]
fn a_pattern_counts_as_an_option_only_where_a_name_could_be_one() {
    let (_around, workspace) = workspace();
    assert_eq!(verdict(LIST, "sort *.txt", &workspace), Verdict::Allow);
    assert_eq!(verdict(LIST, "cd $UNKNOWN && sort *.txt", &workspace), Verdict::Ask);
    fs::write(workspace.join("-o.txt"), "").unwrap();
    assert_eq!(verdict(LIST, "sort *.txt", &workspace), Verdict::Ask);
    assert_eq!(verdict(LIST, "sort ./*.txt", &workspace), Verdict::Allow);
    assert_eq!(verdict(LIST, "cd src && sort *", &workspace), Verdict::Allow);
}

#[test]
fn a_pattern_in_the_place_of_a_value_counts_the_same() {
    let (_around, workspace) = workspace();
    let list =
        "[[rules]]\nverdict = \"allow\"\ncommand = [\"sort *\", \"find *\", \"tar *\", \"rg *\", \"env *\"]";
    let lines = ["sort -T *", "find . -name *out", "find . -newer *", "tar tf *", "tar tbf 20 *", "rg -e *"];
    for line in lines {
        assert_eq!(verdict(list, line, &workspace), Verdict::Allow, "{line}");
    }
    assert_eq!(verdict(list, "env -u * sort x", &workspace), Verdict::Ask);
    fs::write(workspace.join("-out"), "").unwrap();
    for line in lines {
        assert_eq!(verdict(list, line, &workspace), Verdict::Ask, "{line}");
    }
    for line in ["sort -T ./*", "sort -T '*'", "find . -name '*out'", "for f in *; do sort -T \"$f\" x; done"]
    {
        assert_eq!(verdict(list, line, &workspace), Verdict::Allow, "{line}");
    }
}

#[test]
fn bare_commands_are_asked_about_unless_they_only_read() {
    let (_around, workspace) = workspace();
    for command in [
        "ls -la",
        "cat notes.txt | head -3",
        "grep -rn x . && git status",
        "git log --oneline -5",
        "find . -name '*.rs' | xargs wc -l",
        "cd src; ls",
        "if test -f x; then cat x; fi",
        "sed -n 1,3p notes.txt",
        "echo $(ls)",
        "",
    ] {
        let judgement = judge("", command, &workspace, false);
        assert_eq!(judgement.decision.verdict, Verdict::Allow, "{command}: {:?}", judgement.decision);
    }
    for command in [
        "touch x",
        "echo x > y",
        "> y",
        "make",
        "cargo test",
        "curl https://example.org",
        "sed -i s/a/b/ notes.txt",
        "python3 x.py",
        "./run.sh",
        "$UNKNOWN",
        "git push",
        "cat notes.txt; touch x",
        "find . -delete -name x",
        "sort -o x notes.txt",
        "sudo ls",
        "eval \"$X\"",
        "cat ~/.ssh/id_rsa",
        "mytool",
    ] {
        let judgement = judge("", command, &workspace, false);
        assert!(judgement.decision.verdict >= Verdict::Ask, "{command}");
        assert!(judgement.decision.span.is_some(), "{command}");
    }
    assert_eq!(judge("", "rm -rf x", &workspace, false).decision.verdict, Verdict::Deny);
    let rule = "[[rules]]\nverdict = \"allow\"\ncommand = \"make test\"\n[[rules]]\nverdict = \"allow\"\ncommand = \"ls *\"";
    assert_eq!(judge(rule, "make test && ls", &workspace, false).decision.verdict, Verdict::Allow);
    assert_eq!(judge(rule, "make clean", &workspace, false).decision.verdict, Verdict::Ask);
}

/// Deleting a directory deletes the repositories in it, whose work may be nowhere else.
#[test]
fn a_tree_that_holds_a_repository_is_not_deleted() {
    let (_around, workspace) = workspace();
    for directory in
        ["nested/.git", "build/a/b/.git/objects", "packages/one/dist", "packages/two/.git", "dots/.g"]
    {
        fs::create_dir_all(workspace.join(directory)).unwrap();
    }
    fs::create_dir_all(workspace.join("linked")).unwrap();
    fs::write(workspace.join("linked/.git"), "gitdir: elsewhere").unwrap();
    symlink("../nested", workspace.join("dots/link")).unwrap();
    let check = |command: &str| verdict("tools.exec.delete_inside = true", command, &workspace);
    for command in [
        "rm -rf src/.g*",
        "rm -rf src/.gi?",
        "rm -rf src/.[g]it",
        "rm -rf src/.*/hooks",
        "rm -rf nested",
        "rm -rf nested/",
        "rm -rf linked",
        "rm -rf build",
        "rm -rf build/*",
        "rm -rf build/a/*",
        "rm -rf packages/*",
        "rm -rf packages/t*",
        "rm -rf dots nested",
    ] {
        assert_eq!(check(command), Verdict::Deny, "{command}");
    }
    for command in [
        "rm -rf src",
        "rm -rf packages/*/dist",
        "rm -rf packages/o*",
        "rm -rf build/deep",
        "rm -rf dots",
        "rm -rf dots/*",
    ] {
        assert_eq!(check(command), Verdict::Allow, "{command}");
    }
}

/// A repository that somebody else wrote names programs, which git starts when it only reads.
#[test]
fn git_is_a_reader_where_its_repository_names_no_program() {
    let (_around, workspace) = workspace();
    let bare = |command: &str| judge("", command, &workspace, false).decision.verdict;
    let commands = [
        "git status",
        "git --no-pager log -3",
        "git -C src diff",
        "cd src && git show",
        "git -C ./src status",
    ];
    for command in commands {
        assert_eq!(bare(command), Verdict::Allow, "{command}");
    }
    assert_eq!(bare("git grep -c x"), Verdict::Allow);
    for command in
        ["git --git-dir=x status", "GIT_DIR=x git status", "export GIT_DIR=x; git status", "git -c a=b log"]
    {
        assert_eq!(bare(command), Verdict::Ask, "{command}");
    }
    fs::create_dir_all(workspace.join(".git")).unwrap();
    fs::write(workspace.join(".git/config"), "[core]\n\tfsmonitor = ./evil\n").unwrap();
    for command in commands {
        assert_eq!(bare(command), Verdict::Ask, "{command}");
        assert_eq!(judge("", command, &workspace, true).decision.verdict, Verdict::Allow, "{command}");
    }
    assert_eq!(bare("cat notes.txt"), Verdict::Allow);
}

/// A rule allows a command, not the programs that a repository names.
#[test]
fn no_rule_allows_what_a_repository_makes_git_start() {
    let (_around, workspace) = workspace();
    let list = |text: &str| format!("[[rules]]\nverdict = 'allow'\ncommand = [{text}]");
    let git = list("'git {status,commit,log} *', 'git -c core.abbrev=9 log', 'cat *'");
    let commands = ["git status", "git -C src status", "cd src && git status -s", "git commit -m x"];
    let exact = ["git -c core.abbrev=9 log", "GIT_TERMINAL_PROMPT=0 git log"];
    let bare = |policy: &str, command: &str| judge(policy, command, &workspace, false).decision;
    for command in commands.iter().chain(&exact) {
        assert_eq!(bare(&git, command).verdict, Verdict::Allow, "{command}");
    }
    fs::create_dir_all(workspace.join("src/inner/.git")).unwrap();
    fs::write(workspace.join("src/inner/.git/config"), "[core]\n\tfsmonitor = ./evil\n").unwrap();
    assert_eq!(bare(&git, "git -C src/inner status").rule, "guard.bare");
    assert_eq!(bare(&git, "git status").verdict, Verdict::Allow);
    fs::write(workspace.join(".git/config"), "[core]\n\tfsmonitor = ./evil\n").unwrap();
    for command in commands.iter().chain(&exact) {
        for policy in [&git, "profile = 'readonly'", "profile = 'guarded'"] {
            let decision = bare(policy, command);
            assert!(decision.verdict > Verdict::Allow, "{policy}: {command}: {decision:?}");
        }
        assert_eq!(bare(&git, command).rule, "guard.bare", "{command}");
        assert_eq!(judge(&git, command, &workspace, true).decision.verdict, Verdict::Allow, "{command}");
    }
    assert_eq!(bare(&git, "cat notes.txt").verdict, Verdict::Allow);
}

/// A path inside the workspace is one that leads nowhere else.
#[test]
fn what_a_rule_allows_inside_is_not_led_outside_by_links() {
    let (_around, workspace) = workspace();
    fs::write(workspace.join("src/lib.rs"), "x").unwrap();
    let slot = "[[rules]]\nverdict = 'allow'\ncommand = ['{tee,cat} <path>', 'echo *']";
    let place = "[[rules]]\nverdict = 'allow'\ncommand = 'echo *'\n[[rules]]\nverdict = 'allow'\n\
        effect = 'writes'\npath = ['src/**', 'inner/**', 'absolute/**', 'away/**', 'relative/**', 'round/**']";
    let read = "[[rules]]\nverdict = 'allow'\ncommand = 'cp *'\neffect = 'writes'\npath = 'src/**'";
    let check = |policy: &str, command: &str| judge(policy, command, &workspace, false).decision.verdict;
    for (policy, command, expected) in [
        (slot, "echo x | tee src/x", Verdict::Allow),
        (slot, "echo x | tee inner/x", Verdict::Allow),
        (slot, "echo x | tee absolute/new", Verdict::Allow),
        (slot, "cat src/*.rs", Verdict::Allow),
        (slot, "cat inner/*.rs", Verdict::Allow),
        (slot, "echo x | tee away/x", Verdict::Ask),
        (slot, "echo x | tee away", Verdict::Ask),
        (slot, "echo x | tee relative/x", Verdict::Ask),
        (slot, "echo x | tee round/x", Verdict::Ask),
        (slot, "cd away && echo x | tee x", Verdict::Ask),
        (slot, "cat away/*", Verdict::Ask),
        (slot, "cat ./*", Verdict::Ask),
        (slot, "cat ./a*/data", Verdict::Ask),
        (place, "> src/x", Verdict::Allow),
        (place, "> inner/x", Verdict::Allow),
        (place, "> absolute/x", Verdict::Allow),
        (place, "> away/x", Verdict::Ask),
        (place, "> relative/x", Verdict::Ask),
        (place, "> round/x", Verdict::Ask),
        (read, "cp notes.txt src/x", Verdict::Allow),
        (read, "cp away/x src/x", Verdict::Ask),
        (read, "cp notes.txt away/x", Verdict::Ask),
    ] {
        assert_eq!(check(policy, command), expected, "{policy}: {command}");
    }
    let link = workspace.with_file_name("link");
    symlink(&workspace, &link).unwrap();
    let verdict = |command: &str| judge(slot, command, &link, false).decision.verdict;
    assert_eq!((verdict("cat src/x"), verdict("cat away/x")), (Verdict::Allow, Verdict::Ask));
}

/// A rule is about what a command reaches, under whatever name.
#[test]
fn what_a_rule_refuses_is_not_reached_through_links() {
    let (_around, workspace) = workspace();
    fs::create_dir_all(workspace.join("secret/deep")).unwrap();
    fs::write(workspace.join("secret/a.txt"), "x").unwrap();
    for (target, name) in [
        ("secret", "lnk"),
        ("secret/a.txt", "la.txt"),
        (".", "self"),
        ("secret/deep", "deep"),
        ("lnk", "second"),
    ] {
        symlink(target, workspace.join(name)).unwrap();
    }
    let check = |verdict: &str, command: &str, working_dir: Option<&str>| {
        let policy = format!("[[rules]]\nverdict = '{verdict}'\npath = 'secret/**'");
        let working_dir = working_dir.map(str::to_owned);
        let command = CommandUse { command: command.to_owned(), working_dir };
        Policy::from_toml(&policy).unwrap().judge(&command, &workspace, true).decision.verdict
    };
    for command in [
        "cat secret/a.txt",
        "cat lnk/a.txt",
        "cat la.txt",
        "cat self/secret/a.txt",
        "cat self/self/second/a.txt",
        "echo x > lnk/new.txt",
        "cd lnk; cat a.txt",
        "cat deep/../a.txt",
        "cat lnk/*",
        "cat l*/a.txt",
        "cat l*.txt",
        "rm lnk/a.txt",
        "rm l*/a.txt",
    ] {
        assert_eq!(check("deny", command, None), Verdict::Deny, "{command}");
        assert_eq!(check("ask", command, None), Verdict::Ask, "{command}");
    }
    assert_eq!(check("deny", "cat a.txt", Some("lnk")), Verdict::Deny);
    for command in [
        "cat notes.txt",
        "cat self/notes.txt",
        "cat away/x",
        "rm lnk",
        "rm l*",
        "mv la.txt other",
        "cat n*",
        "echo x > /dev/stdout",
        "cat src/*",
    ] {
        assert_eq!(check("deny", command, None), Verdict::Allow, "{command}");
    }
}

/// Helve knows a workspace by its real path, and its owner perhaps by another.
#[test]
fn a_rule_may_name_its_places_through_a_link() {
    let (_around, workspace) = workspace();
    let link = workspace.with_file_name("link");
    symlink(&workspace, &link).unwrap();
    let link = link.display();
    let of_workspace = format!("command = 'cat *'\nworkspace = '{link}'");
    let below = format!("command = 'cat *'\nworkspace = '{link}/**'");
    let of_path = format!("path = '{link}/src/*.rs'");
    let elsewhere = format!("command = 'cat *'\nworkspace = '{link}2'");
    for (matcher, command, expected) in [
        (&of_workspace, "cat src/x", Verdict::Deny),
        (&below, "cat src/x", Verdict::Deny),
        (&elsewhere, "cat src/x", Verdict::Allow),
        (&of_path, "cat src/lib.rs", Verdict::Deny),
        (&of_path, "cat inner/lib.rs", Verdict::Deny),
        (&of_path, "cat src/x", Verdict::Allow),
    ] {
        let policy = format!("[[rules]]\nverdict = 'deny'\n{matcher}");
        assert_eq!(verdict(&policy, command, &workspace), expected, "{matcher}: {command}");
    }
    // A link of the workspace opens nothing else.
    let away = format!("[[rules]]\nverdict = 'allow'\npath = '{}/away/**'", workspace.display());
    let outside = format!("> {}", workspace.with_file_name("outside").join("x").display());
    for command in ["> away/x", outside.as_str()] {
        assert_eq!(judge(&away, command, &workspace, false).decision.verdict, Verdict::Ask, "{command}");
    }
}

/// Who asks a person shows each part by itself.
#[test]
fn every_run_has_a_part_with_its_own_verdict() {
    let (_around, workspace) = workspace();
    let command = "ls; make; cat notes.txt";
    let judgement = judge("", command, &workspace, false);
    let parts: Vec<_> = judgement
        .parts
        .iter()
        .map(|part| (part.run, &command[part.span.0..part.span.1], part.verdict, part.rule.as_str()))
        .collect();
    assert_eq!(
        parts,
        [
            (Some(0), "ls", Verdict::Allow, "guard.default"),
            (Some(1), "make", Verdict::Ask, "guard.bare"),
            (Some(2), "cat notes.txt", Verdict::Allow, "guard.default"),
        ]
    );
    assert_eq!(judgement.decision.span, Some((4, 8)));
}

/// Who runs bare on purpose must not lose the questions that have another cause.
#[test]
fn what_asks_only_because_nothing_contains_it_is_marked() {
    let (_around, workspace) = workspace();
    let judged = |policy: &str, command: &str, contained: bool| {
        let judgement = judge(policy, command, &workspace, contained);
        (judgement.bare, judgement.parts.iter().map(|part| part.bare).collect::<Vec<_>>())
    };
    assert_eq!(judged("", "ls; make > out", false), (true, vec![false, true]));
    assert_eq!(judged("", "> out", false), (true, vec![true]));
    assert_eq!(judged("", "make", true), (false, vec![false]));
    let rule = "[[rules]]\nverdict = 'ask'\ncommand = 'make *'";
    assert_eq!(judged(rule, "make; touch x", false), (false, vec![false, true]));
    assert_eq!(judged("", "rm -rf x", false), (false, vec![false]));
}
