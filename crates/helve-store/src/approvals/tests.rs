use super::*;
use pretty_assertions::assert_eq;
use std::os::unix::fs::MetadataExt as _;

fn place() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(&dir.path().join("home")).unwrap();
    (dir, home)
}

fn grant(pattern: &str) -> NewApproval {
    NewApproval {
        pattern: pattern.to_owned(),
        tool: "exec".to_owned(),
        caller: "owner".to_owned(),
        rule: "guard.bare".to_owned(),
        reason: "it runs bare".to_owned(),
        within: Within::Nothing,
        scope: ApprovalScope::Workspace("/w".to_owned()),
        cwd: "/w".to_owned(),
        scripts: vec![BoundScript { path: "run.sh".to_owned(), hash: "00".to_owned() }],
        expires_at_us: None,
        created_by: "terminal".to_owned(),
        call: "c_1".to_owned(),
        shown: "ff".to_owned(),
    }
}

fn patterns(found: &[StoredApproval]) -> Vec<&str> {
    found.iter().map(|approval| approval.granted.pattern.as_str()).collect()
}

#[test]
fn what_was_kept_comes_back_whole_until_it_is_revoked() {
    let (_dir, home) = place();
    let mut approvals = Approvals::open(&home).unwrap();
    let kept = approvals.add(&grant("cargo test *")).unwrap();
    assert!(kept.id.starts_with("a_") && kept.id.len() == 12, "{}", kept.id);
    assert_eq!(kept.granted, grant("cargo test *"));
    let mut other = Approvals::open_existing(&home).unwrap().unwrap();
    let here = ApprovalScope::Workspace("/w".to_owned());
    assert_eq!(other.find("exec", &here).unwrap(), std::slice::from_ref(&kept));
    for (tool, scope) in [
        ("other", here.clone()),
        ("exec", ApprovalScope::Workspace("/w2".to_owned())),
        ("exec", ApprovalScope::Session("/w".to_owned())),
        ("exec", ApprovalScope::User),
    ] {
        assert_eq!(other.find(tool, &scope).unwrap(), [], "{tool} {scope}");
    }

    assert!(other.touch(&[&kept.id]).unwrap());
    let used = approvals.get(&kept.id).unwrap().unwrap();
    assert_eq!(used.uses, 1);
    assert!(used.last_used_at_us.is_some_and(|at| at >= kept.created_at_us));

    assert!(approvals.revoke(&kept.id).unwrap());
    assert!(!approvals.revoke(&kept.id).unwrap(), "it has ended already");
    assert!(!approvals.revoke("a_none").unwrap());
    assert!(!other.touch(&[&kept.id]).unwrap(), "found before, revoked since");
    assert_eq!(other.find("exec", &here).unwrap(), []);
    assert_eq!(other.list(false).unwrap(), []);
    assert_eq!(other.list(true).unwrap()[0].uses, 1);
}

#[test]
fn a_use_of_several_is_noted_for_all_or_none() {
    let (_dir, home) = place();
    let mut approvals = Approvals::open(&home).unwrap();
    let (first, second) = (approvals.add(&grant("a")).unwrap(), approvals.add(&grant("b")).unwrap());
    approvals.revoke(&second.id).unwrap();
    assert!(!approvals.touch(&[&first.id, &second.id]).unwrap());
    assert_eq!(approvals.get(&first.id).unwrap().unwrap().uses, 0);
}

#[test]
fn what_expired_does_not_hold_and_is_forgotten_in_the_end() {
    let (_dir, home) = place();
    let mut approvals = Approvals::open(&home).unwrap();
    let now = now_us();
    let day = 24 * 3600 * 1_000_000;
    let expires = |pattern: &str, at: u64| NewApproval { expires_at_us: Some(at), ..grant(pattern) };
    approvals.add(&expires("later", now + day)).unwrap();
    let gone = approvals.add(&expires("gone", now - 1)).unwrap();
    let here = ApprovalScope::Workspace("/w".to_owned());
    assert_eq!(patterns(&approvals.find("exec", &here).unwrap()), ["later"]);
    assert!(!approvals.touch(&[&gone.id]).unwrap());
    assert!(!approvals.revoke(&gone.id).unwrap());
    assert_eq!(approvals.gc(false).unwrap(), 0, "kept for a while, so that the past can be explained");
    let old = i64::try_from(now - 31 * day).unwrap();
    approvals.database.execute("UPDATE approvals SET expires_at = ?1 WHERE pattern = 'gone'", [old]).unwrap();
    assert_eq!(approvals.gc(true).unwrap(), 1);
    assert_eq!(patterns(&approvals.list(true).unwrap()).len(), 2, "only asked what it would be");
    assert_eq!(approvals.gc(false).unwrap(), 1);
    assert_eq!(patterns(&approvals.list(true).unwrap()), ["later"]);
}

#[test]
fn the_same_again_changes_the_expiry_and_makes_no_second_one() {
    let (_dir, home) = place();
    let mut approvals = Approvals::open(&home).unwrap();
    let first = approvals.add(&grant("a")).unwrap();
    let until = Some(now_us() + 1_000_000_000);
    let again = approvals.add(&NewApproval { expires_at_us: until, ..grant("a") }).unwrap();
    assert_eq!((again.id.as_str(), again.granted.expires_at_us), (first.id.as_str(), until));
    approvals.revoke(&first.id).unwrap();
    let anew = approvals.add(&grant("a")).unwrap();
    assert_ne!(anew.id, first.id, "a revoked one stays revoked");
    for other in [
        NewApproval { scripts: Vec::new(), ..grant("a") },
        NewApproval { caller: "mcp".to_owned(), ..grant("a") },
        NewApproval { rule: "rules[0]".to_owned(), ..grant("a") },
        NewApproval { reason: "another".to_owned(), ..grant("a") },
        NewApproval { within: Within::Sandbox, ..grant("a") },
        NewApproval { cwd: "/w/sub".to_owned(), ..grant("a") },
    ] {
        assert_ne!(approvals.add(&other).unwrap().id, anew.id, "{other:?}");
    }
}

#[test]
fn the_file_is_the_owners_alone_and_is_made_only_when_needed() {
    let (dir, home) = place();
    assert!(Approvals::open_existing(&home).unwrap().is_none());
    let file = dir.path().join("home/approvals.sqlite");
    assert!(!file.exists());
    Approvals::open(&home).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn what_cannot_be_read_is_an_error_and_is_not_written_over() {
    let (dir, home) = place();
    let file = dir.path().join("home/approvals.sqlite");
    std::fs::write(&file, "this is no database, but it is somebody's, and long enough to be looked at")
        .unwrap();
    let before = std::fs::read(&file).unwrap();
    assert!(matches!(Approvals::open(&home), Err(StoreError::Approvals(_))));
    assert_eq!(std::fs::read(&file).unwrap(), before);
    std::fs::remove_file(&file).unwrap();
    Approvals::open(&home).unwrap().database.pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(Approvals::open(&home), Err(StoreError::NewerApprovals)));
}

#[test]
fn a_row_that_makes_no_sense_allows_nothing() {
    let (_dir, home) = place();
    let mut approvals = Approvals::open(&home).unwrap();
    approvals.add(&grant("a")).unwrap();
    approvals.database.execute("UPDATE approvals SET scripts = 'x'", []).unwrap();
    assert_eq!(approvals.find("exec", &ApprovalScope::Workspace("/w".to_owned())).unwrap(), []);
}

#[test]
fn there_is_a_most() {
    let (_dir, home) = place();
    let mut approvals = Approvals::open(&home).unwrap();
    approvals.add(&grant("a")).unwrap();
    let many = format!(
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {MOST})
         INSERT INTO approvals SELECT 'a_' || x, 'p' || x, tool, caller, rule, reason, within, scope, cwd, scripts,
         expires_at, created_at, created_by, call, shown, last_used_at, uses, revoked_at FROM approvals, n LIMIT {MOST} - 1"
    );
    approvals.database.execute_batch(&many).unwrap();
    assert!(matches!(approvals.add(&grant("b")), Err(StoreError::TooManyApprovals { .. })));
}

#[test]
fn many_at_once_lose_nothing() {
    let (_dir, home) = place();
    let shared = Approvals::open(&home).unwrap().add(&grant("shared")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (home, id) = (home.clone(), shared.id.clone());
            scope.spawn(move || {
                let mut approvals = Approvals::open(&home).unwrap();
                for n in 0..10 {
                    approvals.add(&grant(&format!("{thread} {n}"))).unwrap();
                    assert!(approvals.touch(&[&id]).unwrap());
                }
            });
        }
    });
    let approvals = Approvals::open(&home).unwrap();
    assert_eq!(approvals.list(false).unwrap().len(), 41);
    assert_eq!(approvals.get(&shared.id).unwrap().unwrap().uses, 40);
}
