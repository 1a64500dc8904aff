use std::fs;

use helve_core::DenyRead;
use pretty_assertions::assert_eq;

use super::PathAct::{Delete, Read, Write};
use super::*;

fn by(tool: &str) -> RunBy<'_> {
    RunBy { tool, session: Some("s") }
}

fn judged(config: &str, tool: &str, path: &str, act: PathAct) -> Vec<(Verdict, String, Option<String>)> {
    let policy = Policy::from_toml(config).unwrap();
    let found = policy.judge_paths(by(tool), &[PathUse { path, act }], Path::new("/ws"));
    found.into_iter().map(|one| (one.decision.verdict, one.decision.rule, one.path)).collect()
}

#[test]
fn nothing_is_said_about_ordinary_paths() {
    assert_eq!(judged("", "write_file", "src/lib.rs", Write), []);
    assert_eq!(judged("", "read_file", ".git/config", Read), []);
    assert_eq!(judged("", "write_file", ".github/workflows/ci.yml", Write), []);
}

#[test]
fn protected_names_are_asked_about_whatever_way_leads_there() {
    for path in [".git/config", "sub/../.git/hooks/x", "/ws/a/.vscode/tasks.json", "a/.BASHRC", "helve.toml"]
    {
        let found = judged("", "write_file", path, Write);
        let [(verdict, rule, Some(_))] = found.as_slice() else { panic!("{path}: {found:?}") };
        assert_eq!((*verdict, rule.as_str()), (Verdict::Ask, "view.protected"), "{path}");
    }
    let path = judged("", "write_file", "sub/../.git/hooks/x", Write).remove(0).2;
    assert_eq!(path.as_deref(), Some(".git/hooks/x"));
    assert_eq!(judged("view.protected = []", "write_file", ".vscode/x", Write), []);
}

#[test]
fn the_profile_readonly_denies_writes_and_guarded_asks_about_them() {
    let readonly = judged("profile = \"readonly\"", "write_file", "a", Write);
    assert_eq!(readonly[0].0, Verdict::Deny);
    assert_eq!(readonly[0].1, "profile.readonly.rules[0]");
    assert_eq!(judged("profile = \"readonly\"", "read_file", "a", Read), []);
    let guarded = judged("profile = \"guarded\"", "write_file", "a", Write);
    assert_eq!(guarded, [(Verdict::Ask, "rules_otherwise".to_owned(), Some("a".to_owned()))]);
    assert_eq!(judged("profile = \"coding\"", "write_file", "a", Write), []);
    let allowed = "profile = \"guarded\"\n[[rules]]\nverdict = \"allow\"\ntool = \"write_file\"";
    assert_eq!(judged(allowed, "write_file", "a", Write)[0].0, Verdict::Allow);
    assert_eq!(judged(allowed, "edit_file", "a", Write)[0].0, Verdict::Ask);
    let allowed =
        "profile = \"guarded\"\n[[rules]]\nverdict = \"allow\"\neffect = \"writes\"\npath = \"src\"";
    assert_eq!(judged(allowed, "write_file", "src/a", Write)[0].0, Verdict::Allow);
    assert_eq!(judged(allowed, "write_file", "b", Write)[0].0, Verdict::Ask);
}

#[test]
fn rules_speak_of_paths_tools_and_effects() {
    let config = r#"
        [[rules]]
        verdict = "deny"
        path = "secret/**"
        [[rules]]
        verdict = "ask"
        tool = "write_file"
        path = "docs"
        effect = "writes"
        [[rules]]
        verdict = "deny"
        tool = "grep"
    "#;
    assert_eq!(judged(config, "read_file", "a/../secret/x", Read)[0].0, Verdict::Deny);
    assert_eq!(judged(config, "write_file", "docs/a", Write)[0].0, Verdict::Ask);
    assert_eq!(judged(config, "edit_file", "docs/a", Write), []);
    assert_eq!(judged(config, "read_file", "docs/a", Read), []);
    assert_eq!(judged(config, "grep", "a", Read), [(Verdict::Deny, "rules[2]".to_owned(), None)]);
}

#[test]
fn a_delete_is_judged_as_one_and_as_a_write() {
    let rule = |verdict: &str, more: &str| format!("[[rules]]\nverdict = {verdict:?}\neffect = {more}");
    let once = |verdict| vec![(verdict, "rules[0]".to_owned(), Some("a".to_owned()))];
    let cases = [
        (rule("deny", "\"deletes\""), Delete, once(Verdict::Deny)),
        (rule("ask", "\"deletes\""), Delete, once(Verdict::Ask)),
        (rule("deny", "\"deletes\"\npath = \"a\""), Delete, once(Verdict::Deny)),
        (rule("deny", "\"deletes\"\npath = \"b\""), Delete, vec![]),
        (rule("deny", "\"deletes\""), Write, vec![]),
        (rule("deny", "\"writes\""), Delete, once(Verdict::Deny)),
        (rule("ask", "[\"writes\", \"deletes\"]"), Delete, once(Verdict::Ask)),
    ];
    for (config, act, expected) in cases {
        assert_eq!(judged(&config, "apply_patch", "a", act), expected, "{config}");
    }
    let protected = judged("", "apply_patch", ".git/config", Delete);
    assert_eq!(protected[0].1, "view.protected");
}

#[test]
fn a_link_to_a_denied_path_is_denied_for_reading() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path().canonicalize().unwrap();
    fs::create_dir(workspace.join("secret")).unwrap();
    std::os::unix::fs::symlink("secret", workspace.join("link")).unwrap();
    let policy = Policy::from_toml("[[rules]]\nverdict = \"deny\"\npath = \"/secret/**\"").unwrap();
    let uses = [PathUse { path: "link/x", act: Read }];
    assert_eq!(policy.judge_paths(by("read_file"), &uses, &workspace), []);
    let policy = Policy::from_toml("[[rules]]\nverdict = \"deny\"\npath = \"secret/**\"").unwrap();
    let found = policy.judge_paths(by("read_file"), &uses, &workspace);
    assert_eq!(found[0].decision.verdict, Verdict::Deny);
}

#[test]
fn what_is_closed_is_said_of_names_and_of_what_links_lead_to() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (workspace, more) = (root.join("ws"), root.join("more"));
    for made in [workspace.join("deep/keys"), workspace.join("sub/in"), more.clone()] {
        fs::create_dir_all(made).unwrap();
    }
    fs::write(workspace.join("keys"), "").unwrap();
    for (link, target) in [("link", ".env"), ("to", "sub/in")] {
        std::os::unix::fs::symlink(target, workspace.join(link)).unwrap();
    }
    let config = format!(
        "files.deny_read = [\".env\", \"keys/\", \"!/more/.env\", \"/sub/x\"]\nfiles.read_only = [{more:?}]"
    );
    let policy = Policy::from_toml(&config).unwrap();
    let outside = more.join("a/.env");
    let cases = [
        (".env", Read, true),
        ("a/../.ENV", Read, true),
        (".env", Write, true),
        (".env", Delete, true),
        (".env/x", Write, true),
        ("link", Read, true),
        ("link", Write, false),
        ("deep/keys", Read, true),
        ("deep/keys/x", Read, true),
        ("keys", Read, false),
        ("to/../x", Read, true),
        (outside.to_str().unwrap(), Read, true),
        (".", Read, false),
        ("env", Read, false),
        ("/elsewhere/.env", Read, false),
    ];
    for (path, act, expected) in cases {
        let found = policy.closed(&[PathUse { path: "a", act: Read }, PathUse { path, act }], &workspace);
        assert_eq!(found.is_some(), expected, "{path} {act:?} {found:?}");
        if let Some((_, decision)) = found {
            assert_eq!((decision.verdict, decision.rule.as_str()), (Verdict::Deny, "files.deny_read"));
        }
    }
    let none = Policy::from_toml("files.deny_read = []").unwrap();
    assert_eq!(none.closed(&[PathUse { path: ".env", act: Read }], &workspace), None);
}

#[test]
fn a_bridge_holds_what_rules_deny_to_every_tool() {
    let config = r#"
        files.deny_read = [".env"]
        files.read_write = ["/data/more"]
        files.hard_links = "allow"
        [[rules]]
        verdict = "deny"
        path = ["secret/**", "*.p?m", "/ws/top/[ab]", "/elsewhere/x"]
        [[rules]]
        verdict = "deny"
        tool = "read_file"
        path = "mine"
        [[rules]]
        verdict = "deny"
        session = "other"
        path = "theirs"
    "#;
    let rules = Policy::from_toml(config).unwrap().path_rules(Path::new("/ws"), Some("s"));
    assert_eq!(rules.deny_read, [".env", "/secret/**", "/**/*.p?m", "/top/[a-ab-b]"]);
    assert_eq!(rules.roots, [ExtraRoot { path: "/data/more".into(), write: true }]);
    assert!(rules.hard_links);
    assert!(rules.protected.iter().any(|name| name == WORKSPACE_FILE));
    let deny = DenyRead::new(&rules.deny_read).unwrap();
    let denied = |path: &str| deny.denies(Path::new(path), false);
    assert_eq!(
        ["secret/a/b", "a/b/x.pem", "top/a", "top/a/b", "top/c", "secrets/a", "a/secret/b"].map(denied),
        [true, true, true, true, false, false, false]
    );
}

#[test]
fn what_is_denied_to_one_tool_or_asked_about_is_left_out_where_it_is_not_named() {
    let config = r#"
        [[rules]]
        verdict = "deny"
        tool = ["read_file", "grep"]
        path = "secret/**"
        [[rules]]
        verdict = "ask"
        path = "asked"
        [[rules]]
        verdict = "deny"
        path = "denied"
        [[rules]]
        verdict = "ask"
        effect = "writes"
        path = "written"
        [[rules]]
        verdict = "allow"
        path = "allowed"
        [[rules]]
        verdict = "ask"
        session = "other"
        path = "theirs"
    "#;
    let policy = Policy::from_toml(config).unwrap();
    assert_eq!(policy.left_out(by("grep"), Path::new("/ws")), ["/secret/**", "/**/asked"]);
    assert_eq!(policy.left_out(by("glob"), Path::new("/ws")), ["/**/asked"]);
}

#[test]
fn what_usually_holds_credentials_is_denied_and_what_looks_like_it_is_not() {
    let rules = Policy::builtin().path_rules(Path::new("/ws"), None);
    let deny = DenyRead::new(&rules.deny_read).unwrap();
    let denied = |path: &&str| deny.denies(Path::new(path), false);
    let secret = [
        ".env",
        "a/.env.local",
        "server.key",
        "tls/private.pem",
        "cert-key.pem",
        "tls/cert.key.pem",
        "chain_key_2.pem",
        "certkey1.pem",
        "cert-keypair.pem",
        "server-cert-private.pem",
        "public_api_private.pem",
        "public-key-private.pem",
        "publish-key.pem",
        "cert-secret.pem",
        "id_rsa",
        "x/id_ed25519_work",
        ".netrc",
        ".aws/config",
        "a/.ssh/known_hosts",
        ".cargo/credentials.toml",
    ];
    let plain = [
        ".env.example",
        "a/.env.sample",
        "env",
        "src/keys.rs",
        "id_rsa.pub",
        "lib/certifi/cacert.pem",
        "tests/fullchain.pem",
        "keycloak-cert.pem",
        "public_key.pem",
        "jwt/public.pem",
        "jwt.pub.key.pem",
        "signing-key-pub.pem",
        "PubKey.pem",
        ".npmrc",
        "README.md",
        ".cargo/config.toml",
    ];
    assert_eq!(secret.iter().filter(|path| !denied(path)).collect::<Vec<_>>(), Vec::<&&str>::new());
    assert_eq!(plain.iter().filter(|path| denied(path)).collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn a_path_in_a_sentence_does_nothing_to_a_terminal() {
    let policy = Policy::builtin();
    let uses = [PathUse { path: ".git/a\n\u{1b}[31m", act: Write }];
    let found = policy.judge_paths(by("write_file"), &uses, Path::new("/ws"));
    let reason = found[0].decision.reason.clone().unwrap();
    assert!(!reason.contains(['\n', '\u{1b}']), "{reason}");
}
