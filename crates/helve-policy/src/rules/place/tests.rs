use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

fn glob(text: &str) -> PathGlob {
    PathGlob::parse(text, Some(Path::new("/home/me"))).unwrap()
}

#[test]
fn globs_hold_what_they_say() {
    for (text, path, expected) in [
        ("**", "/w", true),
        ("**", "/w/a/b", true),
        ("**", "/x", false),
        ("src", "/w/src", true),
        ("src", "/w/src/main.rs", true),
        ("src", "/w/deep/src/main.rs", true),
        ("src/", "/w/deep/src/main.rs", true),
        ("./src/x", "/w/src/x", true),
        ("src/**", "/w/src/a/b", true),
        ("src/**", "/w/src", true),
        ("src/**", "/w/deep/src/a", false),
        ("src/*.rs", "/w/src/main.rs", true),
        ("src/*.rs", "/w/src/a/main.rs", false),
        ("src/**/*.rs", "/w/src/a/b/main.rs", true),
        ("src/**/*.rs", "/w/src/main.rs", true),
        ("**/x/**/y", "/w/a/x/b/c/y/z", true),
        ("**/x/**/y", "/w/a/y/b/x", false),
        ("*.pem", "/w/a/key.pem", true),
        ("*.pem", "/other/key.pem", false),
        (".env", "/w/.env", true),
        (".env", "/w/.envrc", false),
        ("/etc/**", "/etc/passwd", true),
        ("/etc", "/etc/ssh/x", true),
        ("/etc/*.conf", "/etc/a.conf", true),
        ("/etc/*.conf", "/etc/a.config", false),
        ("/**/.ssh", "/home/me/.ssh/id_rsa", true),
        ("~/.ssh/**", "/home/me/.ssh/id_rsa", true),
        ("~", "/home/me/x", true),
        ("~/x", "/home/you/x", false),
        ("a/[bc]?", "/w/a/b1", true),
        ("a/[!bc]?", "/w/a/b1", false),
        ("a/[a-c]*z", "/w/a/bxyz", true),
        (r"a/\*", "/w/a/*", true),
        (r"a/\*", "/w/a/b", false),
        ("/", "/anything", true),
    ] {
        assert_eq!(glob(text).holds(Path::new(path), Path::new("/w")), expected, "{text} holds {path}");
    }
}

#[test]
fn braces_stand_for_each_of_their_alternatives() {
    for (text, path, expected) in [
        ("{secret,src}/**", "/w/secret/x", true),
        ("{secret,src}/**", "/w/src", true),
        ("{secret,src}/**", "/w/other/x", false),
        ("{secret,src}/**", "/w/{secret,src}/x", false),
        ("{a/b,c}/x", "/w/a/b/x", true),
        ("{a/b,c}/x", "/w/c/x", true),
        ("{.env,*.pem}", "/w/deep/key.pem", true),
        ("{.env,deep/x}", "/w/a/.env", true),
        ("{.env,deep/x}", "/w/a/deep/x", false),
        ("/{etc,var/{log,lib}}/x", "/var/lib/x", true),
        ("~/{.ssh,.aws}", "/home/me/.aws/credentials", true),
        ("{~/x,y}", "/home/me/x", true),
        ("a{,.bak}", "/w/a", true),
        ("a{,.bak}", "/w/a.bak", true),
        (r"\{a,b\}", "/w/{a,b}", true),
        (r"\{a,b\}", "/w/a", false),
        ("x[{,}]y", "/w/x,y", true),
        ("{a}", "/w/{a}", true),
        ("{a,b", "/w/{a,b", true),
    ] {
        let globs = PathGlob::parse_all(text, Some(Path::new("/home/me"))).unwrap();
        let held = globs.iter().any(|glob| glob.holds(Path::new(path), Path::new("/w")));
        assert_eq!(held, expected, "{text} holds {path}");
    }
    for (text, part) in [
        ("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "write fewer"),
        ("{{{{{{{{{{a,b},c},d},e},f},g},h},i},j},k}", "write fewer"),
        ("{a,..}/x", "`..` cannot stand"),
        ("{,}", "stands for nothing"),
    ] {
        let error = PathGlob::parse_all(text, None).unwrap_err();
        assert!(error.contains(part), "{text:?}: {error}");
    }
}

#[test]
fn what_is_no_glob_says_what_to_change() {
    for (text, part) in [
        ("", "stands for nothing"),
        ("!x", "cannot be turned round"),
        ("a/../b", "`..` cannot stand in a glob"),
        ("~other/x", "only `~/` stands"),
        ("a/[bc", "never closed"),
        ("a\\", "backslash"),
        ("a\0b", "NUL"),
    ] {
        let error = PathGlob::parse(text, Some(Path::new("/home/me"))).unwrap_err();
        assert!(error.contains(part), "{text:?}: {error}");
    }
    assert!(PathGlob::parse("~/x", None).unwrap_err().contains("HOME is not set"));
    assert!(PathGlob::parse(&"a/".repeat(100), None).unwrap_err().contains("parts"));
}

fn matches(under: &str, pattern: &str) -> Target {
    let under = PathBuf::from(under);
    let inside = under.starts_with("/w");
    Target::Glob { under, pattern: pattern.to_owned(), inside, written: None }
}

fn path(path: &str) -> Target {
    Target::path(path, path.starts_with("/w"))
}

#[test]
fn a_rule_that_allows_takes_a_pattern_only_as_a_whole() {
    let workspace = Path::new("/w");
    for (text, target, expected) in [
        ("target/**", matches("/w/target", "target/*.o"), true),
        ("target", matches("/w/target/x", "target/x/*"), true),
        ("target/*.o", matches("/w/target", "target/*.o"), false),
        ("target/**", matches("/w", "*/x"), false),
        ("target/**", matches("/w/target", "target/*/../../x"), false),
        ("**", Target::Unknown, false),
        ("**", Target::Machine, false),
        ("**", path("/w/x"), true),
    ] {
        assert_eq!(glob(text).holds_all(&target, workspace), expected, "{text} {target:?}");
    }
}

#[test]
fn a_rule_that_denies_finds_what_can_be_touched() {
    let workspace = Path::new("/w");
    use EffectKind::{Connect, DeleteTree, Read};
    for (text, target, kind, expected) in [
        ("config/secret.toml", matches("/w/config", "config/*"), Read, true),
        ("config/secret.toml", matches("/w/config", "config/*.toml"), Read, true),
        ("config/secret.toml", matches("/w/config", "config/*.rs"), Read, false),
        ("config/.secret", matches("/w/config", "config/*"), Read, false),
        ("config/secret.toml", matches("/w/other", "other/*"), Read, false),
        ("*.pem", matches("/w/keys", "keys/*.pem"), Read, true),
        ("*.pem", matches("/w/keys", "keys/server.*"), Read, true),
        ("/etc/shadow", matches("/etc", "/etc/sha*"), Read, true),
        ("config/secret.toml", path("/w/config"), Read, false),
        ("config/secret.toml", path("/w/config"), DeleteTree, true),
        ("config/secret.toml", path("/w"), DeleteTree, true),
        ("config/secret.toml", path("/"), DeleteTree, true),
        ("config/secret.toml", path("/w/src"), DeleteTree, false),
        ("config/secret.toml", path("/other"), DeleteTree, false),
        ("config/secret.toml", matches("/w", "*"), DeleteTree, true),
        ("**", Target::Unknown, Read, false),
        ("/etc/**", Target::Unknown, Read, false),
        ("/**", Target::Unknown, Read, true),
        ("/**", Target::Unknown, DeleteTree, true),
        ("/**", Target::Unknown, Connect, false),
    ] {
        assert_eq!(glob(text).touches(&target, kind, workspace), expected, "{text} {target:?} {kind:?}");
    }
}

#[test]
fn hosts_match_by_name_and_port() {
    for (text, host, expected) in [
        ("example.org", "example.org", true),
        ("example.org", "EXAMPLE.org.", true),
        ("example.org", "example.org:443", true),
        ("example.org:443", "example.org:443", true),
        ("example.org:443", "example.org:80", false),
        ("example.org:443", "example.org", false),
        ("example.org", "www.example.org", false),
        ("*.example.org", "www.example.org", true),
        ("*.example.org", "a.b.example.org:8080", true),
        ("*.example.org", "example.org", false),
        ("*.example.org", "badexample.org", false),
        ("*.example.org", ".example.org", false),
        ("*", "anything", true),
        ("*:22", "anything:22", true),
        ("*:22", "anything:23", false),
        ("127.0.0.1", "127.0.0.1:80", true),
        ("[::1]:80", "[::1]:80", true),
        ("[::1]", "::1", true),
        ("example.org", "example.org:x", false),
        ("127.0.0.1", "127.1:80", true),
        ("127.0.0.1", "2130706433", true),
        ("127.0.0.1", "0x7F.1", true),
        ("127.0.0.1", "0177.0.0.01", true),
        ("127.0.0.1", "[::ffff:127.0.0.1]:80", true),
        ("127.0.0.1", "[::ffff:7f00:1]:80", true),
        ("127.1", "127.0.0.1", true),
        ("::1", "[0:0::1]:80", true),
        ("fe80::1", "[fe80::1%eth0]:80", true),
        ("127.0.0.1", "127.0.0.2", false),
        ("1.2.3.4", "1.2.772", true),
        ("0.0.0.0", "0", true),
        ("0.0.0.0", "0x", true),
        ("127.0.0.1", "127.0.0.0.1", false),
        ("127.0.0.1", "383.1", false),
        ("0.0.0.8", "08", false),
    ] {
        assert_eq!(HostPattern::parse(text).unwrap().holds(host), expected, "{text} {host}");
    }
    for text in
        ["", "https://example.org", "example.org/x", "a b", "example.org:99999", "example.org:x", "a.*.b"]
    {
        assert!(HostPattern::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_rule_that_denies_holds_for_a_port_that_is_not_known() {
    for (text, host, expected) in [
        ("example.org:443", "example.org", true),
        ("*.example.org:443", "www.example.org", true),
        ("example.org:443", "example.org:80", false),
        ("example.org:443", "example.net", false),
        ("example.org", "example.org:https", true),
        ("example.org:22", "example.org:20-25", true),
        ("example.org:22", "example.org:", true),
        ("*:22", "example.org:ssh", true),
        ("*:22", "example.org", false),
        ("*", "example.org", true),
    ] {
        assert_eq!(HostPattern::parse(text).unwrap().may_hold(host), expected, "{text} {host}");
    }
}

#[test]
fn two_patterns_meet_where_a_name_fits_both() {
    let meet = |a: &str, b: &str| {
        let (a, b) = (PartGlob::parse(a).unwrap(), (b, PartGlob::parse(b).unwrap()));
        let (there, back) = (a.may_meet(&b.1), b.1.may_meet(&a));
        assert_eq!(there, back, "{}", b.0);
        there
    };
    for (a, b) in [
        ("*", "*"),
        ("*.pem", "k*"),
        ("*.pem", "*"),
        ("*a*b*", "*ba*b"),
        ("a*", "*a"),
        ("?*", "a"),
        ("a?c", "*[a-c]c"),
        ("[!a]x", "b*"),
        ("**x", "x*"),
        ("*ab", "a*b*"),
        ("", "*"),
    ] {
        assert!(meet(a, b), "{a} {b}");
    }
    for (a, b) in [
        ("*.pem", "*.rs"),
        ("k*", "l*"),
        ("?", "*ab"),
        ("a?", "b*"),
        ("*.pem", "?"),
        ("[!a]x", "a*"),
        ("a*b", "a*c"),
        ("", "?*"),
    ] {
        assert!(!meet(a, b), "{a} {b}");
    }
}

proptest! {
    #[test]
    fn patterns_meet_that_fit_one_name(a in "[ab?*]{0,6}", b in "[ab?*]{0,6}", name in "[ab]{0,5}") {
        let (a, b) = (PartGlob::parse(&a).unwrap(), PartGlob::parse(&b).unwrap());
        prop_assert!(!(a.matches(&name) && b.matches(&name)) || a.may_meet(&b));
        prop_assert_eq!(PartGlob::of(&name).may_meet(&a), a.matches(&name));
    }

    #[test]
    fn no_text_makes_it_panic(text in "[ab*?/\\[\\]!\\\\.~-]{0,40}", path in "/w(/[ab.]{0,3}){0,8}") {
        if let Ok(glob) = PathGlob::parse(&text, Some(Path::new("/home/me"))) {
            let workspace = Path::new("/w");
            let target = Target::path(path.clone(), true);
            let held = glob.holds(Path::new(&path), workspace);
            prop_assert_eq!(held, glob.holds_all(&target, workspace));
            prop_assert!(!held || glob.touches(&target, EffectKind::Read, workspace));
        }
        let _ = HostPattern::parse(&text);
    }
}

/// A part of a glob against a slow and plain definition.
#[test]
fn a_part_matches_by_its_definition() {
    fn slow(glob: &[char], name: &[char]) -> bool {
        match glob {
            [] => name.is_empty(),
            ['*', rest @ ..] => (0..=name.len()).any(|cut| slow(rest, &name[cut..])),
            ['?', rest @ ..] => !name.is_empty() && slow(rest, &name[1..]),
            [ch, rest @ ..] => name.first() == Some(ch) && slow(rest, &name[1..]),
        }
    }
    let words = |letters: &[char]| {
        let mut all = vec![String::new()];
        for length in 0..5 {
            let longest: Vec<String> =
                all.iter().filter(|word| word.chars().count() == length).cloned().collect();
            all.extend(longest.iter().flat_map(|word| letters.iter().map(move |ch| format!("{word}{ch}"))));
        }
        all
    };
    for glob in words(&['a', 'b', '*', '?']) {
        let own = PartGlob::parse(&glob).unwrap();
        let chars: Vec<char> = glob.chars().collect();
        for name in words(&['a', 'b']).iter().filter(|name| name.len() < 5) {
            let name_chars: Vec<char> = name.chars().collect();
            assert_eq!(own.matches(name), slow(&chars, &name_chars), "{glob} {name}");
        }
    }
}
