//! What is denied or protected by the name of a link: the whole way counts, whatever it passes.

use pretty_assertions::assert_eq;

use super::*;

/// Links, by path and target. `@` stands for the workspace's own path.
type Links = &'static [(&'static str, &'static str)];

fn link(scene: &Scene, links: Links) {
    let root = scene.folder.path().canonicalize().unwrap();
    for (path, target) in links {
        let path = scene.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target.replace('@', root.to_str().unwrap()), path).unwrap();
    }
}

fn guarded(scene: &Scene) -> Vec<String> {
    scene.keeper.before().unwrap();
    let all = scene.keeper.guarded().into_iter().map(show);
    let guarded = all.filter(|one| !one.ends_with(" (pin)")).collect();
    scene.after();
    guarded
}

const SECRETS: &[(&str, &str)] = &[
    ("conf/prod", "secret"),
    ("keys/deep/k", "secret"),
    ("dot/gh/hosts.yml", "secret"),
    ("dot/gh/plain", ""),
    ("dot/gh/.envrc", ""),
    ("src/main.rs", ""),
];

fn patterns() -> DenyRead {
    DenyRead::new(&[".env", "vault/", ".config/gh/hosts.yml", ".vscode/x/*.key", ".envrc"]).unwrap()
}

/// Links, and what is hidden for their sake.
const HIDDEN: &[(Links, &[&str])] = &[
    // A link to a link, in both directions of the alphabet.
    (&[(".env", "link"), ("link", "conf/prod")], &["conf/prod"]),
    (&[("z/.env", "../a"), ("a", "b"), ("b", "c"), ("c", "conf/prod")], &["conf/prod"]),
    // Through linked directories.
    (&[(".env", "lnk/prod"), ("lnk", "conf")], &["conf/prod"]),
    (&[(".env", "a/b/prod"), ("a", "src"), ("src/b", "../conf")], &["conf/prod"]),
    // Up again behind a linked directory: not where the text says.
    (&[(".env", "lnk/../../conf/prod"), ("lnk", "keys/deep")], &["conf/prod"]),
    // A link to a directory.
    (&[("vault", "keys")], &["keys"]),
    (&[("vault", "keys/deep/")], &["keys/deep"]),
    (&[("a/vault", "../b"), ("b", "keys")], &["keys"]),
    (&[(".env", "keys")], &["keys"]),
    // Out of the workspace and back.
    (&[(".env", "@/conf/prod")], &["conf/prod"]),
    (&[(".env", "@/src/../lnk/prod"), ("lnk", "@/conf")], &["conf/prod"]),
    (&[(".env", "/../proc/self/../..@/conf/prod")], &["conf/prod"]),
    // A link above what is denied.
    (&[(".config", "dot")], &["dot/gh/hosts.yml"]),
    (&[(".config/gh", "../gh2"), ("gh2", "dot/gh")], &["dot/gh/hosts.yml"]),
    (&[(".config/gh/hosts.yml", "../../x"), ("x", "conf/prod")], &["conf/prod"]),
    (&[(".config", "d2"), ("d2/gh", "../g2"), ("g2/hosts.yml", "../conf/prod")], &["conf/prod"]),
    // Something protected that is denied, too.
    (&[("sub/.envrc", "../conf/prod")], &["conf/prod"]),
    // What leads nowhere, hides nothing.
    (&[(".env", "nothing/at/all"), ("vault", ".env")], &[]),
    (&[(".env", "a"), ("a", ".env")], &[]),
    (&[(".env", "/etc/hostname"), ("x/.env", "/nowhere/at/all")], &[]),
    (&[(".env", "conf/prod/"), ("x/.env", "../conf/prod/more")], &[]),
    // What holds the link is not hidden, and a pattern for directories counts for directories alone.
    (&[(".env", "."), ("src/.env", ".."), ("src/vault", "../conf/prod")], &[]),
    (&[("plain", "conf/prod"), ("other", "keys")], &[]),
];

#[test]
fn what_a_denied_name_leads_to_is_hidden() {
    let expected = |hidden: &[&str]| -> Vec<String> {
        let mut all: Vec<String> = hidden.iter().map(|path| format!("{path} (hidden)")).collect();
        all.push("dot/gh/.envrc (hidden)".to_owned());
        all.sort();
        all
    };
    for (links, hidden) in HIDDEN {
        for calls in [0, 1, 3] {
            let scene = Scene::denying(SECRETS, true, patterns());
            for _ in 0..calls {
                guarded(&scene);
            }
            link(&scene, links);
            assert_eq!(guarded(&scene), expected(hidden), "{links:?} after {calls}");
            assert_eq!(guarded(&scene), expected(hidden), "{links:?} after {calls}");
            for (path, _) in *links {
                fs::remove_file(scene.path(path)).unwrap();
            }
            assert_eq!(guarded(&scene), expected(&[]), "{links:?} after {calls}");
        }
    }
}

#[test]
fn what_a_denied_link_leads_to_is_hidden_as_soon_as_it_is_there() {
    for calls in [0, 1, 3] {
        let scene = Scene::denying(&[("conf/x", "")], true, patterns());
        link(&scene, &[(".env", "a/prod"), ("a", "conf"), (".config", "dot")]);
        for _ in 0..calls {
            assert_eq!(guarded(&scene), [] as [&str; 0]);
        }
        scene.write("conf/prod", "secret");
        scene.write("dot/gh/plain", "");
        assert_eq!(guarded(&scene), ["conf/prod (hidden)"]);
        scene.write("dot/gh/hosts.yml", "secret");
        assert_eq!(guarded(&scene), ["conf/prod (hidden)", "dot/gh/hosts.yml (hidden)"]);
        // Also where a command makes it, and where the owner leads a link elsewhere.
        scene.call(|scene| scene.write("dot/gh/more", ""));
        scene.write("conf2/prod", "other");
        fs::remove_file(scene.path("a")).unwrap();
        symlink("conf2", scene.path("a")).unwrap();
        assert_eq!(guarded(&scene), ["conf2/prod (hidden)", "dot/gh/hosts.yml (hidden)"]);
        fs::remove_file(scene.path("dot/gh/hosts.yml")).unwrap();
        scene.call(|scene| scene.write("dot/gh/hosts.yml", "theirs"));
        assert_eq!(guarded(&scene), ["conf2/prod (hidden)", "dot/gh/hosts.yml (hidden)"]);
    }
}

#[test]
fn what_nobody_may_read_is_hidden_inside_protected_places() {
    let files = [
        (".vscode/.env", "secret"),
        (".vscode/x/a.key", "secret"),
        (".vscode/deep/vault/k", "secret"),
        (".vscode/tasks.json", "{}"),
        ("conf/prod", "secret"),
    ];
    let hidden = [
        ".vscode",
        ".vscode/.env (hidden)",
        ".vscode/deep/vault (hidden)",
        ".vscode/many/.env (hidden)",
        ".vscode/x/a.key (hidden)",
        "conf/prod (hidden)",
    ];
    for calls in [0, 1, 3] {
        let scene = Scene::denying(&files, true, patterns());
        for _ in 0..calls {
            guarded(&scene);
        }
        // More than is remembered of a place.
        for number in 0..2100 {
            scene.write(&format!(".vscode/many/{number}"), "");
        }
        scene.write(".vscode/many/.env", "secret");
        link(&scene, &[(".vscode/more/.env", "../../conf/prod")]);
        assert_eq!(guarded(&scene), hidden, "{calls}");
    }
}

#[test]
fn a_way_without_end_stops_the_call() {
    let scene = Scene::denying(&[("x", "")], true, patterns());
    let long = format!("{}x", "./".repeat(2000));
    symlink(&long, scene.path("a")).unwrap();
    symlink(format!("{}a", "./".repeat(2000)), scene.path("b")).unwrap();
    symlink(format!("{}b", "./".repeat(2000)), scene.path(".env")).unwrap();
    let error = scene.keeper.before().unwrap_err().to_string();
    assert!(error.contains(".env: it leads further than can be followed"), "{error}");
    fs::remove_file(scene.path("b")).unwrap();
    assert_eq!(scene.call(|_| {}), []);
}

/// A command that leaves such a link stops no later call.
#[test]
fn a_name_that_nothing_can_have_leads_nowhere() {
    let long = "a".repeat(300);
    let targets = [long.clone(), format!("{long}/x"), format!("src/{long}"), format!("made/{long}/../x")];
    let git = format!("[core]\n\thooksPath = {long}\n[include]\n\tpath = made/{long}\n");
    for calls in [0, 1, 3] {
        for target in &targets {
            let scene = Scene::denying(&[("src/x", ""), (".git/HEAD", "")], true, patterns());
            for _ in 0..calls {
                guarded(&scene);
            }
            let made = scene.call(|scene| {
                for link in [".env", "vault", ".config", "src/.env"] {
                    symlink(target, scene.path(link)).unwrap();
                }
            });
            assert_eq!(made, []);
            assert_eq!(scene.call(|_| {}), [], "{target} {calls}");
            // So does the owner's.
            symlink(target, scene.path(".bashrc")).unwrap();
            scene.write(".git/config", &git);
            let removed = scene.call(|scene| fs::create_dir(scene.path("made")).unwrap());
            assert_eq!(removed, [], "{target} {calls}");
            assert_eq!(scene.call(|_| {}), [], "{target} {calls}");
        }
    }
}

/// Files, links, and files of the workspace that are protected for their sake.
const PROTECTED: &[(Links, &[&str])] = &[
    (&[(".claude/settings.json", "../conf/prod")], &["conf/prod"]),
    (&[(".claude/deep/er/x", "../../../conf/prod")], &["conf/prod"]),
    (&[(".git/hooks/post-checkout", "../../s1"), ("s1", "conf/prod")], &["conf/prod"]),
    (&[(".git/hooks/post-merge", "../../lnk/prod"), ("lnk", "conf")], &["conf/prod"]),
    (&[("hk/pre-commit", "../conf/prod")], &["conf/prod"]),
    (&[("hk", "keys/deep"), ("keys/deep/pre-commit", "../../conf/prod")], &["keys/deep/k", "conf/prod"]),
    (&[(".bashrc", "rc2"), ("rc2", "conf/prod")], &["conf/prod"]),
    (&[(".vscode", "keys")], &["keys/deep/k"]),
    (&[("a/.vscode", "../b"), ("b", "keys")], &["keys/deep/k"]),
    (&[(".vscode", "keys"), ("keys/tasks.json", "../conf/prod")], &["keys/deep/k", "conf/prod"]),
    (&[(".bashrc", "@/lnk/prod"), ("lnk", "conf")], &["conf/prod"]),
    // One in the other.
    (&[(".bashrc", "keys/deep/k"), (".vscode", "keys"), (".zshrc", "keys/deep/k")], &["keys/deep/k"]),
    (&[(".vscode", "dot")], &["dot/gh/hosts.yml"]),
];

#[test]
fn what_a_protected_name_leads_to_is_protected() {
    let config = "[core]\n\thooksPath = hk\n";
    for (links, protected) in PROTECTED {
        for calls in [0, 1, 3] {
            let mut files = SECRETS.to_vec();
            files.extend([(".git/config", config), (".git/HEAD", "")]);
            let scene = Scene::denying(&files, true, none());
            link(&scene, links);
            for _ in 0..calls {
                guarded(&scene);
            }
            let list = guarded(&scene);
            for path in *protected {
                let covers = |one: &String| Path::new(path).starts_with(one);
                assert!(list.iter().any(covers), "{links:?}: {list:?}");
            }
            assert!(!list.iter().any(|one| ["src", "conf"].contains(&one.as_str())), "{links:?}: {list:?}");
            // Where nothing is mounted, all of it is put back, and the links on the way too.
            let scene = Scene::denying(&files, false, none());
            link(&scene, links);
            for _ in 0..calls {
                assert_eq!(scene.keeper.before().map(|_| ()).unwrap(), ());
                assert_eq!(scene.keeper.after().unwrap(), [], "{links:?}");
            }
            scene.call(|scene| {
                for path in *protected {
                    scene.write(path, "theirs");
                }
                for (path, _) in links.iter().filter(|(path, _)| !path.contains('/')) {
                    fs::remove_file(scene.path(path)).unwrap();
                    symlink("src", scene.path(path)).unwrap();
                }
            });
            for path in *protected {
                assert_eq!(scene.read(path).unwrap(), "secret", "{links:?}");
            }
            let root = scene.folder.path().canonicalize().unwrap();
            for (path, target) in *links {
                let target = target.replace('@', root.to_str().unwrap());
                assert_eq!(fs::read_link(scene.path(path)).unwrap(), Path::new(&target), "{links:?}");
            }
        }
    }
}

#[test]
fn nothing_new_comes_where_a_protected_link_leads() {
    for mounts in [true, false] {
        first_and_later(&[("src/x", ""), (".claude/x", "")], mounts, |scene| {
            link(
                scene,
                &[
                    (".bashrc", "rc"),
                    (".zshrc", "new/er/rc"),
                    (".claude/a", "../b"),
                    (".claude/docs", "../docs"),
                ],
            );
            let removed = scene.call(|scene| {
                scene.write("rc", "theirs");
                scene.write("new/er/rc", "theirs");
                scene.write("new/er/other", "stays");
                scene.write("b", "theirs");
                scene.write("docs/x", "stays");
            });
            assert_eq!(removed, taken(&[("b", "theirs"), ("new/er/rc", "theirs"), ("rc", "theirs")]));
            fs::remove_dir_all(scene.path("new")).unwrap();
            let removed = scene.call(|scene| symlink("src", scene.path("new")).unwrap());
            assert_eq!(removed, taken(&[("new", "")]));
            // What the owner makes there is the owner's.
            scene.write("rc", "mine");
            assert_eq!(guarded(scene).contains(&"rc".to_owned()), mounts);
            assert_eq!(scene.read("rc").as_deref(), Some("mine"));
            assert_eq!((scene.read("new/er/other"), scene.read("docs/x").as_deref()), (None, Some("stays")));
        });
    }
}

#[test]
fn configurations_of_git_count_wherever_links_and_includes_lead() {
    let files = [
        (".git/HEAD", ""),
        ("tools/config", "[include]\n\tpath = more\n"),
        (".git/more", "[include]\n\tpath = ../tools/last\n"),
        ("tools/last", "[core]\n\thooksPath = tools/lnk\n"),
        ("hk/pre-commit", "mine"),
        ("src/x", ""),
    ];
    first_and_later(&files, false, |scene| {
        link(scene, &[(".git/config", "../tools/config"), ("tools/lnk", "../hk")]);
        let removed = scene.call(|scene| {
            for path in ["tools/config", ".git/more", "tools/last", "hk/pre-commit", "src/x"] {
                scene.write(path, "theirs");
            }
        });
        let paths: Vec<&str> = removed.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, [".git/more", "hk/pre-commit", "tools/config", "tools/last"]);
        assert_eq!(scene.read("hk/pre-commit").as_deref(), Some("mine"));
    });
}
