use super::super::testing::{keys, request, shown};
use super::*;
use helve::{Grant, Scope};
use pretty_assertions::assert_eq;

const SIZE: Size = Size { rows: 24, columns: 80 };

fn key(key: Key) -> Vec<Event> {
    vec![Event::Key(key)]
}

/// Draws before each step, as the terminal does.
fn steps(dialog: &mut Dialog<'_>, steps: &[Vec<Event>]) -> Option<Approval> {
    let mut answer = None;
    for events in steps {
        assert_eq!(answer, None, "an answer came too early");
        dialog.draw(SIZE);
        answer = dialog.take(events);
    }
    answer
}

#[test]
fn one_key_is_a_yes_for_once() {
    let request = request("touch a", &[Some("touch a")]);
    let mut dialog = Dialog::new(&request);
    assert!(shown(&dialog.draw(SIZE)).contains("[o]nce  [s]ession  [a]lways  [n]o  [v]iew again  [?]"));
    assert_eq!(steps(&mut dialog, &[keys("o")]), Some(Approval::Once));
}

#[test]
fn a_no_carries_its_reason() {
    let request = request("touch a", &[None]);
    let mut dialog = Dialog::new(&request);
    let typed = steps(&mut dialog, &[keys("n"), keys("use mkdir, not touch"), key(Key::Enter)]);
    assert_eq!(typed, Some(Approval::Denied { reason: "use mkdir, not touch".into() }));
    let mut dialog = Dialog::new(&request);
    let pasted = steps(&mut dialog, &[keys("n"), vec![Event::Paste("because\n".into())], key(Key::Enter)]);
    assert_eq!(pasted, Some(Approval::Denied { reason: "because".into() }));
    let mut dialog = Dialog::new(&request);
    let back = steps(&mut dialog, &[keys("n"), key(Key::Escape), keys("o")]);
    assert_eq!(back, Some(Approval::Once));
}

#[test]
fn what_is_pasted_or_comes_at_once_is_no_answer() {
    let request = request("touch a", &[Some("touch a")]);
    for burst in [
        vec![Event::Paste("o".into())],
        vec![Event::Paste("y\ny\n".into())],
        keys("oo"),
        keys("o\r"),
        keys("ay"),
        keys("no"),
        [keys("o"), vec![Event::Paste(String::new())]].concat(),
    ] {
        let mut dialog = Dialog::new(&request);
        dialog.draw(SIZE);
        assert_eq!(dialog.take(&burst), None, "{burst:?}");
        assert!(shown(&dialog.draw(SIZE)).contains("press one key"), "{burst:?}");
        assert!(dialog.is_at_the_question(), "{burst:?}");
    }
    let mut dialog = Dialog::new(&request);
    let interrupted = [keys("xy"), key(Key::Interrupt)].concat();
    assert_eq!(dialog.take(&interrupted), Some(Approval::Cancelled));
}

#[test]
fn keys_behind_an_edited_rule_are_no_answer() {
    let request = request("touch a", &[Some("touch a")]);
    let mut dialog = Dialog::new(&request);
    assert_eq!(steps(&mut dialog, &[keys("a"), keys("e")]), None);
    dialog.draw(SIZE);
    // Escape leaves the editor; the key that came with it does not save.
    let burst = [key(Key::Escape), keys("y")].concat();
    assert_eq!(dialog.take(&burst), None);
    assert_eq!(
        dialog.take(&keys("y")),
        Some(Approval::Always { grants: vec![grant("touch a", Scope::Workspace)] })
    );
}

#[test]
fn a_long_command_has_no_yes_before_its_end() {
    let request = request(&"echo x\n".repeat(100), &[Some("echo x")]);
    let mut dialog = Dialog::new(&request);
    let first = shown(&dialog.draw(SIZE));
    assert!(first.contains("-- lines 1-") && !first.contains("[o]nce"), "{first}");
    for yes in ["o", "s", "a", "y"] {
        assert_eq!(dialog.take(&keys(yes)), None, "{yes}");
        assert!(dialog.is_at_the_question(), "{yes}");
    }
    let mut pages = 1;
    while !shown(&dialog.draw(SIZE)).contains("[o]nce") {
        assert_eq!(dialog.take(&keys(" ")), None);
        pages += 1;
        assert!(pages < 20, "the end never comes");
    }
    assert!(pages > 4, "{pages}");
    assert_eq!(dialog.take(&keys("v")), None);
    assert!(shown(&dialog.draw(SIZE)).starts_with("exec wants to run:\n"));
    assert_eq!(dialog.take(&keys("o")), Some(Approval::Once));
    // Whoever does not want to read it all says so.
    let mut dialog = Dialog::new(&request);
    assert_eq!(steps(&mut dialog, &[keys("q"), keys("o")]), Some(Approval::Once));
}

fn grant(pattern: &str, scope: Scope) -> Grant {
    Grant { pattern: pattern.into(), scope, expires: None, part: 0 }
}

#[test]
fn a_longer_yes_shows_its_rules_first() {
    let request = request("touch a; touch b", &[Some("touch a"), Some("touch b")]);
    let mut dialog = Dialog::new(&request);
    assert_eq!(steps(&mut dialog, &[keys("s")]), None);
    let screen = shown(&dialog.draw(SIZE));
    for part in ["in the session tests allow", "> rule 1\n  | touch a\n", "\n  rule 2\n  | touch b\n"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    assert!(!screen.contains("where:"), "{screen}");
    let grants =
        vec![grant("touch a", Scope::Session), Grant { part: 1, ..grant("touch b", Scope::Session) }];
    assert_eq!(dialog.take(&keys("y")), Some(Approval::Session { grants }));
}

#[test]
fn where_and_how_long_are_chosen() {
    let request = request("touch a", &[Some("touch a")]);
    let mut dialog = Dialog::new(&request);
    let chosen = [keys("a"), key(Key::Down), key(Key::Right), key(Key::Down), key(Key::Right)];
    assert_eq!(steps(&mut dialog, &chosen), None);
    let screen = shown(&dialog.draw(SIZE));
    assert!(screen.contains("where: everywhere\n> how long: for 1 day\n"), "{screen}");
    let Some(Approval::Always { grants }) = dialog.take(&keys("y")) else {
        panic!("no longer yes");
    };
    assert_eq!(grants[0].scope, Scope::User);
    let day = std::time::SystemTime::now() + std::time::Duration::from_secs(24 * 60 * 60);
    let off = day.duration_since(grants[0].expires.unwrap()).unwrap();
    assert!(off < std::time::Duration::from_secs(60));
}

#[test]
fn a_rule_that_would_not_be_taken_stays_in_the_editor() {
    let request = request("touch a", &[Some("touch a")]);
    let mut dialog = Dialog::new(&request);
    let edited = [keys("a"), keys("e"), key(Key::Backspace), keys("*"), key(Key::Enter)];
    assert_eq!(steps(&mut dialog, &edited), None);
    let screen = shown(&dialog.draw(SIZE));
    assert!(screen.contains("can be allowed only this once") && screen.contains("> touch *"), "{screen}");
    assert_eq!(dialog.take(&key(Key::Escape)), None);
    let Some(Approval::Always { grants }) = dialog.take(&keys("y")) else { panic!("no longer yes") };
    assert_eq!(grants, [grant("touch a", Scope::Workspace)]);
}

#[test]
fn only_what_may_be_kept_is_offered() {
    let mut none = request("a; b", &[None, None]);
    let mut dialog = Dialog::new(&none);
    let screen = shown(&dialog.draw(SIZE));
    assert!(screen.contains("No rule for this") && screen.contains("[o]nce  [n]o"), "{screen}");
    assert_eq!(steps(&mut dialog, &[keys("s"), keys("a"), keys("y")]), None);
    none.parts[1].offer = Some("b".into());
    none.longest = Lasting::Session;
    let screen = shown(&Dialog::new(&none).draw(SIZE));
    assert!(screen.contains("[o]nce  [s]ession  [n]o"), "{screen}");
    none.longest = Lasting::Once;
    let screen = shown(&Dialog::new(&none).draw(SIZE));
    assert!(screen.contains("Every answer to this") && screen.contains("[o]nce  [n]o"), "{screen}");
}

#[test]
fn a_part_without_a_rule_hides_no_rule_of_the_others() {
    let mut request = request("a; bash -c x; b", &[Some("a"), None, Some("b")]);
    request.parts[1].text = "bash -c x".into();
    let mut dialog = Dialog::new(&request);
    let screen = shown(&dialog.draw(SIZE));
    assert!(
        screen.contains("1 of 3 parts can be allowed only once and will be asked about again."),
        "{screen}"
    );
    assert!(screen.contains("[o]nce  [s]ession  [a]lways"), "{screen}");
    assert_eq!(steps(&mut dialog, &[keys("a")]), None);
    let screen = shown(&dialog.draw(SIZE));
    assert!(screen.contains("ask about it again:\n  | bash -c x\n"), "{screen}");
    let grants = vec![grant("a", Scope::Workspace), Grant { part: 2, ..grant("b", Scope::Workspace) }];
    assert_eq!(dialog.take(&keys("y")), Some(Approval::Always { grants }));
}

#[test]
fn what_a_rule_is_bound_to_stands_below_it() {
    let mut request = request("touch a", &[Some("touch a")]);
    request.parts[0].directory = Some("/ws/sub".into());
    request.parts[0].scripts = vec![helve::Script { path: "run.sh".into(), hash: "0".into() }];
    let mut dialog = Dialog::new(&request);
    assert_eq!(steps(&mut dialog, &[keys("a")]), None);
    let screen = shown(&dialog.draw(SIZE));
    for bound in ["\n  only in        /ws/sub\n", "\n  only while     run.sh is as it is now\n"] {
        assert!(screen.contains(bound), "{bound}: {screen}");
    }
    assert_eq!(steps(&mut dialog, &[key(Key::Down), key(Key::Right)]), None);
    let screen = shown(&dialog.draw(SIZE));
    assert!(screen.contains("\n  only in        sub of any workspace\n"), "{screen}");
}

#[test]
fn a_session_is_explained_as_a_name() {
    let request = request("touch a", &[Some("touch a")]);
    let mut dialog = Dialog::new(&request);
    assert_eq!(steps(&mut dialog, &[keys("s")]), None);
    let screen = shown(&dialog.draw(SIZE)).replace("\n    ", "");
    for part in ["in every process that uses the name", "at most 24 hours", "the day's date (UTC)"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
}

#[test]
fn help_comes_and_goes() {
    let request = request("touch a", &[None]);
    let mut dialog = Dialog::new(&request);
    assert_eq!(steps(&mut dialog, &[keys("?")]), None);
    assert!(shown(&dialog.draw(SIZE)).contains("Ctrl-Z"));
    assert_eq!(dialog.take(&keys("o")), None, "a key that leaves the help is no answer");
    assert_eq!(dialog.take(&keys("o")), Some(Approval::Once));
}

#[test]
fn every_size_of_screen_can_be_drawn() {
    let request = request(&"echo 漢字 \u{202e}; ".repeat(30), &[Some("x")]);
    for rows in 1..12 {
        for columns in 1..50 {
            let mut dialog = Dialog::new(&request);
            let size = Size { rows, columns };
            for events in [keys("v"), keys("q"), keys("a"), keys("e"), keys("z"), key(Key::Escape), keys("y")]
            {
                let screen = dialog.draw(size);
                assert!(screen.rows.len() <= rows, "{size:?}");
                dialog.take(&events);
            }
        }
    }
}
