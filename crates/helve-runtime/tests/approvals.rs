//! What an answer is worth: how long it holds, what it is bound to, and what no answer can do.

mod common;

use std::time::{Duration, SystemTime};

use common::asking::{Place, Scripted, always, call, kind, offers, once, planned, session};
use helve_core::{ErrorKind, Verdict};
use helve_policy::{Policy, Sources};
use helve_runtime::{Approval, ApprovalRequest, Grant, Lasting, Scope};
use helve_store::{ApprovalScope, NewApproval, Within};
use pretty_assertions::assert_eq;

#[tokio::test]
async fn once_is_once_and_keeps_nothing() {
    let place = Place::new();
    let asked = Scripted::new(once);
    let runtime = place.runtime(&asked);
    for _ in 0..2 {
        assert!(runtime.call(call("cargo build")).await.ok);
    }
    assert_eq!((asked.count(), place.ran()), (2, 2));
    assert!(!place.path("state/approvals.sqlite").exists());
    let request = asked.last();
    assert_eq!((request.command.as_deref(), request.longest), (Some("cargo build"), Lasting::Always));
    assert_eq!(request.parts.len(), 1);
    let part = &request.parts[0];
    assert_eq!((part.span, part.text.as_str()), (Some((0, 11)), "cargo build"));
    assert_eq!(part.offer.as_deref(), Some("cargo build"));
    assert_eq!(request.accepts(0, "cargo build"), Ok(()));
    assert!(request.accepts(0, "cargo *").is_err() && request.accepts(1, "cargo build").is_err());
}

#[tokio::test]
async fn a_session_yes_holds_in_that_session_alone() {
    let place = Place::new();
    let yes = Scripted::new(session);
    let runtime = place.runtime(&yes);
    assert!(runtime.call(call("cargo build")).await.ok);
    let again = runtime.call(call("cargo build")).await;
    assert_eq!((again.ok, yes.count()), (true, 1));
    let decision = again.decision.unwrap();
    assert_eq!(decision.verdict, Verdict::Allow);
    let rows = place.approvals().list(false).unwrap();
    assert_eq!(decision.rule, format!("approval {}", rows[0].id));
    assert_eq!(rows[0].granted.scope, ApprovalScope::Session("test".into()));
    assert_eq!((rows[0].uses, rows[0].granted.created_by.as_str()), (1, "test"));
    assert!(rows[0].granted.expires_at_us.is_some(), "a session can go on for ever, its grants do not");

    assert!(place.runtime(&yes).call(call("cargo build")).await.ok);
    assert_eq!(yes.count(), 1, "another process of the same session");
    let no = Scripted::new(|_| Approval::Denied { reason: "no".into() });
    let other = place.builder("").session("other").approver(no.clone()).build().unwrap();
    assert_eq!(kind(&other.call(call("cargo build")).await), Some(ErrorKind::ApprovalDenied));
    assert!(!place.runtime(&no).call(call("cargo test")).await.ok, "another command");
    assert_eq!(no.count(), 2);
}

#[tokio::test]
async fn always_holds_in_every_session_of_the_workspace_until_it_is_revoked() {
    let place = Place::new();
    let yes = Scripted::new(always);
    assert!(place.runtime(&yes).call(call("cargo build")).await.ok);
    let no = Scripted::new(|_| Approval::Denied { reason: "no".into() });
    let with = |workspace: &str| {
        place
            .builder("")
            .session("other")
            .workspace(place.path(workspace))
            .approver(no.clone())
            .build()
            .unwrap()
    };
    assert!(with("w").call(call("cargo build")).await.ok);
    assert!(!with("w2").call(call("cargo build")).await.ok, "another workspace");
    let mut approvals = place.approvals();
    let id = approvals.list(false).unwrap()[0].id.clone();
    assert!(approvals.revoke(&id).unwrap());
    assert!(!with("w").call(call("cargo build")).await.ok, "revoked");
    assert_eq!(no.count(), 2);
}

#[tokio::test]
async fn everywhere_means_every_workspace_and_an_expired_grant_nothing() {
    let place = Place::new();
    let everywhere = Scripted::new(|request| Approval::Always { grants: offers(request, Scope::User) });
    assert!(place.runtime(&everywhere).call(call("cargo build")).await.ok);
    let past = Scripted::new(|request| {
        let mut grants = offers(request, Scope::User);
        grants[0].expires = Some(SystemTime::now() - Duration::from_secs(1));
        Approval::Always { grants }
    });
    let elsewhere = place.builder("").workspace(place.path("w2")).approver(past.clone()).build().unwrap();
    assert!(elsewhere.call(call("cargo build")).await.ok);
    assert_eq!(past.count(), 0);
    for _ in 0..2 {
        assert!(elsewhere.call(call("cargo test")).await.ok);
    }
    assert_eq!(past.count(), 2);
}

#[tokio::test]
async fn every_part_of_a_chain_has_to_be_covered() {
    let place = Place::new();
    let first = Scripted::new(|request| {
        let mut grants = offers(request, Scope::Workspace);
        grants.truncate(1);
        Approval::Always { grants }
    });
    let runtime = place.runtime(&first);
    let chain = "cargo build && npm run build";
    assert!(runtime.call(call(chain)).await.ok);
    assert_eq!(first.last().parts.len(), 2);
    assert!(runtime.call(call("cargo build")).await.ok);
    assert_eq!(first.count(), 1, "the part that was granted");
    assert!(runtime.call(call(chain)).await.ok);
    assert_eq!(first.count(), 2, "the other part still asks");
    let all = Scripted::new(always);
    let runtime = place.runtime(&all);
    assert!(runtime.call(call(chain)).await.ok && runtime.call(call(chain)).await.ok);
    assert_eq!(all.count(), 1);
    let more = runtime.call(call("cargo build && npm run build && curl x")).await;
    assert_eq!((more.ok, all.count()), (true, 2), "a part more asks again");
}

#[tokio::test]
async fn a_grant_is_bound_to_the_content_of_the_script_and_to_the_directory() {
    let place = Place::new();
    let script = place.path("w/build.sh");
    let write = |text: &str| std::fs::write(&script, text).unwrap();
    write("echo one");
    let yes = Scripted::new(always);
    let runtime = place.runtime(&yes);
    assert!(runtime.call(call("./build.sh all")).await.ok);
    let request = yes.last();
    assert_eq!(request.parts[0].offer.as_deref(), Some("./build.sh all"));
    assert_eq!(request.scripts.iter().map(|script| script.path.as_str()).collect::<Vec<_>>(), ["build.sh"]);
    assert!(runtime.call(call("./build.sh all")).await.ok);
    assert_eq!(yes.count(), 1);

    write("echo two");
    assert!(runtime.call(call("./build.sh all")).await.ok);
    assert_eq!(yes.count(), 2, "other content asks again");
    write("echo one");
    assert!(runtime.call(call("./build.sh all")).await.ok);
    assert_eq!(yes.count(), 2, "the content that was granted first");
    assert!(runtime.call(call("./build.sh other")).await.ok);
    assert_eq!(yes.count(), 3, "another argv");

    std::fs::copy(&script, place.path("w/sub/build.sh")).unwrap();
    let below = place.builder("tools.exec.working_dir = 'sub'").approver(yes.clone()).build().unwrap();
    assert!(below.call(call("./build.sh all")).await.ok);
    assert_eq!(yes.count(), 4, "another directory asks again");
    assert!(runtime.call(call("cargo build")).await.ok);
    assert!(below.call(call("cargo build")).await.ok);
    assert_eq!(yes.count(), 6, "also where no script is run");

    write("echo three");
    for _ in 0..2 {
        assert!(runtime.call(call("bash build.sh")).await.ok);
    }
    assert_eq!((yes.count(), yes.last().parts[0].offer.as_deref()), (7, Some("bash build.sh")));
    for other in
        ["A=1 bash build.sh", "bash -x build.sh", "bash build.sh < x", "bash build.sh > x", "bash < build.sh"]
    {
        let before = yes.count();
        assert!(runtime.call(call(other)).await.ok);
        assert_eq!(yes.count(), before + 1, "{other}");
        assert_eq!(yes.last().parts.iter().find_map(|part| part.offer.clone()), None, "{other}");
    }

    std::fs::write(place.path("outside.sh"), "x").unwrap();
    std::os::unix::fs::symlink("../outside.sh", place.path("w/link.sh")).unwrap();
    std::fs::write(place.path("w/large.sh"), vec![b'#'; (1 << 20) + 1]).unwrap();
    for unbound in ["./link.sh", "./large.sh", "./gone.sh"] {
        assert!(runtime.call(call(unbound)).await.ok);
        assert_eq!(yes.last().parts[0].offer, None, "{unbound}");
    }
}

#[tokio::test]
async fn what_changes_while_the_owner_looks_is_not_run() {
    let place = Place::new();
    let script = place.path("w/build.sh");
    std::fs::write(&script, "echo good").unwrap();
    for answer in [once as fn(&ApprovalRequest) -> Approval, always] {
        let changed = script.clone();
        let yes = Scripted::new(move |request| {
            let now = std::fs::read_to_string(&changed).unwrap();
            std::fs::write(&changed, now + "; evil").unwrap();
            answer(request)
        });
        let result = place.runtime(&yes).call(call("./build.sh")).await;
        assert_eq!(kind(&result), Some(ErrorKind::Conflict));
    }
    assert_eq!(place.ran(), 0);
    assert!(!place.path("state/approvals.sqlite").exists());
}

#[tokio::test]
async fn a_grant_that_was_not_offered_counts_for_this_call_only() {
    let place = Place::new();
    for pattern in ["git *", "git", "*", "cargo build", "sh *", "git push origin other", "git push\n*", ""] {
        let yes = Scripted::new(move |_| {
            let grant = Grant { pattern: pattern.into(), scope: Scope::User, expires: None, part: 0 };
            let beyond = Grant { part: 7, ..grant.clone() };
            Approval::Always { grants: vec![grant, beyond] }
        });
        let result = place.runtime(&yes).call(call("git push origin main")).await;
        assert!(result.ok, "{pattern:?}");
        assert!(result.notes.iter().any(|note| note.contains("for this call only")), "{:?}", result.notes);
        assert_eq!(planned(place.dir.path()).last().unwrap()["approval"]["answer"], "once");
    }
    assert!(!place.path("state/approvals.sqlite").exists());
    let edited = Scripted::new(|_| {
        let grant =
            Grant { pattern: "git push origin *".into(), scope: Scope::Workspace, expires: None, part: 0 };
        Approval::Always { grants: vec![grant] }
    });
    let runtime = place.runtime(&edited);
    assert!(runtime.call(call("git push origin main")).await.ok);
    assert!(runtime.call(call("git push origin other")).await.ok);
    assert_eq!(edited.count(), 1, "an edited pattern that still matches");
}

#[tokio::test]
async fn no_approval_lifts_a_refusal() {
    let place = Place::new();
    let mut approvals = place.approvals();
    for pattern in ["rm -rf x", "sh -c ls", "bash"] {
        let row = NewApproval {
            pattern: pattern.into(),
            tool: "sh".into(),
            caller: "library".into(),
            rule: "guard.bare".into(),
            reason: "it runs without a sandbox and may do more than read".into(),
            within: Within::Nothing,
            scope: ApprovalScope::User,
            cwd: ".".into(),
            scripts: Vec::new(),
            expires_at_us: None,
            created_by: "somebody".into(),
            call: "c_1".into(),
            shown: String::new(),
        };
        approvals.add(&row).unwrap();
    }
    let no = Scripted::new(|_| Approval::Nobody);
    let runtime = place.runtime(&no);
    assert_eq!(kind(&runtime.call(call("rm -rf x")).await), Some(ErrorKind::Blocked));
    assert_eq!(no.count(), 0, "what is denied is not asked");
    for stored in ["sh -c ls", "bash"] {
        let result = runtime.call(call(stored)).await;
        assert_eq!(
            kind(&result),
            Some(ErrorKind::ApprovalRequired),
            "never offered, so never taken: {stored}"
        );
    }
    assert_eq!(place.ran(), 0);
}

#[tokio::test]
async fn the_ceiling_bounds_how_long_an_answer_holds() {
    let place = Place::new();
    let yes = Scripted::new(always);
    assert!(place.runtime(&yes).call(call("cargo build")).await.ok);
    let under = |longest: &str| {
        let file = place.path("system.toml");
        std::fs::write(&file, format!("[ceiling]\nlongest_approval = \"{longest}\"\n")).unwrap();
        let policy = Policy::load(&Sources { system: Some(file), ..Sources::default() }).unwrap();
        place.builder("").policy(policy).approver(yes.clone()).build().unwrap()
    };
    let runtime = under("once");
    for _ in 0..2 {
        assert!(runtime.call(call("cargo build")).await.ok);
    }
    assert_eq!(
        (yes.count(), yes.last().longest),
        (3, Lasting::Once),
        "an earlier grant does not count either"
    );
    assert_eq!(yes.last().parts[0].offer, None);

    let runtime = under("session");
    assert!(runtime.call(call("cargo test")).await.ok);
    assert_eq!(place.approvals().list(true).unwrap().len(), 1, "an always is too long to be kept");
    let session = Scripted::new(session);
    let file = place.path("system.toml");
    let policy = Policy::load(&Sources { system: Some(file), ..Sources::default() }).unwrap();
    let runtime = place.builder("").policy(policy).approver(session.clone()).build().unwrap();
    assert!(runtime.call(call("cargo test")).await.ok && runtime.call(call("cargo test")).await.ok);
    assert_eq!(session.count(), 1);
}

#[tokio::test]
async fn a_rule_of_the_ceiling_asks_every_time() {
    let place = Place::new();
    let yes = Scripted::new(always);
    assert!(place.runtime(&yes).call(call("cargo publish")).await.ok);
    let file = place.path("system.toml");
    let rule = "[[ceiling.rules]]\nverdict = \"ask\"\ncommand = \"cargo publish *\"\n";
    std::fs::write(&file, rule).unwrap();
    let policy = Policy::load(&Sources { system: Some(file), ..Sources::default() }).unwrap();
    let runtime = place.builder("").policy(policy).approver(yes.clone()).build().unwrap();
    for _ in 0..2 {
        assert!(runtime.call(call("cargo publish")).await.ok);
    }
    assert_eq!((yes.count(), yes.last().longest), (3, Lasting::Once));
}

#[tokio::test]
async fn a_grant_for_a_command_does_not_cover_more_than_the_command() {
    let place = Place::new();
    let yes = Scripted::new(always);
    let runtime = place.runtime(&yes);
    assert!(runtime.call(call("cargo build")).await.ok && runtime.call(call("cargo build")).await.ok);
    assert_eq!(yes.count(), 1);
    for (at, more) in [
        "cargo build > Makefile",
        "RUSTC=./evil cargo build",
        "cargo build $(./evil)",
        "cargo build --config x",
        "cargo build; ./evil",
        "cargo() { ./evil; }; cargo build",
        "PATH=. ; cargo build",
        "sudo cargo build",
        "./cargo build",
        "cargo build | sh",
        "xargs cargo build",
    ]
    .into_iter()
    .enumerate()
    {
        let result = runtime.call(call(more)).await;
        assert_eq!((result.ok, yes.count()), (true, at + 2), "{more}");
    }
}

#[tokio::test]
async fn a_tool_that_always_asks_by_the_owners_word_always_asks() {
    let place = Place::new();
    let yes = Scripted::new(always);
    let runtime = place.builder("tools.sh.approval = 'always'").approver(yes.clone()).build().unwrap();
    for _ in 0..2 {
        assert!(runtime.call(call("cargo build")).await.ok);
    }
    assert_eq!((yes.count(), yes.last().longest), (2, Lasting::Once));
}
