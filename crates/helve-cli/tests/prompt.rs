//! The question as a person meets it, on a terminal that tmux makes: keys, pastes and resizes as they come from hands, and
//! what stands on the screen. Where tmux is missing, these tests say so and pass, or fail if `HELVE_TEST_PEERS` is 1.

#[cfg(test)]
mod prompt {
    pub(crate) mod tmux;
}
#[cfg(test)]
mod support;

#[cfg(test)]
mod tests {
    use super::prompt::tmux::Screen;
    use super::support::Place;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    /// Without a sandbox every change asks.
    const BARE: &str = "run --session tests --set sandbox=none";

    /// The row of choices for a command whose rule can be kept.
    const CHOICES: &str = "[o]nce  [s]ession  [a]lways  [n]o  [v]iew again  [?]";

    /// Asks about a command on a screen.
    fn ask(place: &Place, command: &str) -> Option<Screen> {
        let screen = Screen::start(place, &format!("{BARE} '{command}'"), (100, 30))?;
        screen.wait_for("[n]o");
        Some(screen)
    }

    #[test]
    fn a_yes_for_once_holds_once() {
        let place = Place::new();
        let Some(screen) = ask(&place, "touch made && echo done") else { return };
        for part in ["exec wants to run:", "  | touch made && echo done", "programs", "Asked by"] {
            assert!(screen.text().contains(part), "{part}: {}", screen.text());
        }
        assert!(!place.has("made"));
        screen.keys("o");
        screen.wait_for("EXIT:0");
        assert!(screen.text().contains("allowed once: touch made && echo done"), "{}", screen.text());
        assert!(screen.text().contains("\ndone\n"), "{}", screen.text());
        assert!(place.has("made"));
        let Some(screen) = ask(&place, "touch made && echo done") else { return };
        screen.keys("n");
        screen.wait_for("Why not?");
        screen.key("Enter");
        screen.wait_for("EXIT:3");
    }

    /// The exit code of a call that nobody can answer for, in a session.
    fn headless(place: &Place, session: &str, command: &str) -> i32 {
        place.run(&["run", "--session", session, "--set", "sandbox=none", command]).code
    }

    #[test]
    fn a_yes_for_the_session_is_not_asked_again_in_it() {
        let place = Place::new();
        assert_eq!(headless(&place, "tests", "touch made"), 4);
        let Some(screen) = ask(&place, "touch made") else { return };
        assert!(screen.text().contains(CHOICES), "{}", screen.text());
        screen.keys("s");
        screen.wait_for("in the session tests allow without asking:");
        assert!(screen.text().contains("  | touch made\n"), "{}", screen.text());
        screen.keys("y");
        screen.wait_for("EXIT:0");
        assert!(screen.text().contains("allowed for this session: touch made"), "{}", screen.text());
        assert_eq!(headless(&place, "tests", "touch made"), 0);
        assert_eq!(headless(&place, "tests", "touch other"), 4, "only what was shown is allowed");
        assert_eq!(headless(&place, "other", "touch made"), 4, "another session asks");
    }

    #[test]
    fn a_yes_for_always_is_kept_used_listed_and_revoked() {
        let place = Place::new();
        let Some(screen) = ask(&place, "touch made") else { return };
        screen.keys("a");
        screen.wait_for("from now on allow without asking:");
        screen.key("Down");
        screen.key("Down");
        screen.key("Right");
        screen.key("Right");
        screen.wait_for("how long: for 30 days");
        screen.keys("y");
        screen.wait_for("EXIT:0");
        assert_eq!(headless(&place, "another", "touch made"), 0);

        let listed: Vec<Value> =
            serde_json::from_str(&place.run(&["approvals", "list", "--json"]).stdout).unwrap();
        let [approval] = listed.as_slice() else { panic!("{listed:?}") };
        assert_eq!((&approval["pattern"], &approval["uses"]), (&json!("touch made"), &json!(1)));
        assert_eq!(approval["created_by"], "terminal");
        assert!(approval["expires_at_us"].is_u64(), "{approval}");
        let id = approval["id"].as_str().unwrap();
        let told = place.run(&["approvals", "list"]).stdout;
        assert!(told.contains(&format!("{id}  exec touch made\n")) && told.contains("used once"), "{told}");
        let call = place.run(&["log", "--json", "--session", "another"]).stdout;
        let call: Value = serde_json::from_str(&call).unwrap();
        let why = place.run(&["why", call["call"].as_str().unwrap()]).stdout;
        assert!(why.contains(&format!("allowed earlier ({id})")), "{why}");

        let rule = serde_json::from_str::<Value>(
            &place.run(&["why", call["call"].as_str().unwrap(), "--json"]).stdout,
        );
        let rule = rule.unwrap()["rule"].as_str().unwrap().to_owned();
        let explained = place.run(&["policy", "explain", &rule]).stdout;
        assert!(explained.starts_with(&format!("{id}  exec touch made\n")), "{rule}: {explained}");

        assert_eq!(place.run(&["approvals", "revoke", id]).code, 0);
        assert_eq!(headless(&place, "another", "touch made"), 4);
        assert_eq!(place.run(&["approvals", "list", "--json"]).stdout, "[]\n");
        assert!(place.run(&["approvals", "list", "--all"]).stdout.contains("; revoked "));
        let Some(screen) = ask(&place, "touch made") else { return };
        screen.key("C-c");
        screen.wait_for("EXIT:130");
    }

    #[test]
    fn a_rule_can_be_edited_but_not_past_what_was_shown() {
        let place = Place::new();
        let Some(screen) = ask(&place, "touch made") else { return };
        screen.keys("a");
        screen.wait_for("from now on allow without asking:");
        screen.keys("e");
        screen.wait_for("> touch made");
        screen.key("C-u");
        screen.keys("ls");
        screen.key("Enter");
        screen.wait_for("does not match");
        screen.key("Escape");
        screen.wait_for("[y] allow and run");
        assert!(screen.text().contains("  | touch made\n"), "{}", screen.text());
        screen.keys("y");
        screen.wait_for("EXIT:0");
        assert_eq!(headless(&place, "another", "ls > made"), 4);
    }

    #[test]
    fn an_edited_rule_allows_what_it_says() {
        let place = Place::new();
        let Some(screen) = ask(&place, "touch made") else { return };
        screen.keys("a");
        screen.wait_for("from now on allow without asking:");
        screen.keys("e");
        screen.wait_for("> touch made");
        for _ in "made".chars() {
            screen.key("BSpace");
        }
        screen.paste("<path>\n");
        screen.wait_for("> touch <path>");
        screen.key("Enter");
        screen.wait_for("[y] allow and run");
        assert!(screen.text().contains("  | touch <path>\n"), "{}", screen.text());
        screen.keys("y");
        screen.wait_for("EXIT:0");
        assert_eq!(headless(&place, "another", "touch other"), 0);
        assert_eq!(headless(&place, "another", "touch ../outside/other"), 4);
        assert_eq!(headless(&place, "another", "touch other; mkdir more"), 4, "every part must be allowed");
    }

    #[test]
    fn a_part_that_can_be_allowed_only_once_hides_no_rule_of_the_others() {
        let place = Place::new();
        let Some(screen) = ask(&place, "touch made; bash -c \"touch more\"") else { return };
        assert!(screen.text().contains(CHOICES), "{}", screen.text());
        screen.keys("a");
        screen.wait_for("ask about it again:");
        let text = screen.text();
        let (kept, again) = text.split_once("ask about it again:").unwrap();
        assert!(kept.contains("  | touch made\n  only in        /"), "{text}");
        assert!(again.contains("  | bash -c") && again.contains("  | touch more\n"), "{text}");
        screen.keys("y");
        screen.wait_for("EXIT:0");
        assert_eq!(headless(&place, "another", "touch made"), 0);
        assert_eq!(headless(&place, "another", "touch more"), 4);
        let listed = place.run(&["approvals", "list"]).stdout;
        let directory = format!("; only in {};", place.workspace().display());
        assert!(listed.contains(&directory), "{directory}: {listed}");
        let asked = "for what guard.bare asks about calls by owner without a sandbox\n";
        assert!(listed.contains(asked), "{listed}");
    }

    #[test]
    fn what_was_allowed_once_is_learned_as_a_comment() {
        let place = Place::new();
        for (command, answer) in [("touch once", "o"), ("touch kept", "s")] {
            let Some(screen) = ask(&place, command) else { return };
            screen.keys(answer);
            if answer == "s" {
                screen.wait_for("[y] allow and run");
                screen.keys("y");
            }
            screen.wait_for("EXIT:0");
        }
        let learned = place.run(&["policy", "learn"]).stdout;
        assert!(learned.contains("\ncommand = \"touch kept\"\n"), "{learned}");
        assert!(learned.contains("\n# command = \"touch once\"\n"), "{learned}");

        // Rules are written after a yes, and only those that are no comments.
        for (answer, written) in [("n", false), ("y", true)] {
            let Some(screen) = Screen::start(&place, "policy learn --write", (100, 30)) else { return };
            screen.wait_for("[y/N]");
            screen.keys(&format!("{answer}\n"));
            screen.wait_for("EXIT:0");
            let rules = place.run(&["policy", "show", "--json"]).stdout;
            assert_eq!(rules.contains("touch kept"), written, "{rules}");
            assert!(!rules.contains("touch once"), "{rules}");
        }
    }

    #[test]
    fn what_would_give_away_everything_is_never_offered() {
        for command in
            ["bash -c \"touch made\"", "python3 -c pass", "sudo touch made", "cat list | xargs touch"]
        {
            let place = Place::new();
            let Some(screen) = ask(&place, command) else { return };
            assert!(screen.text().contains("[o]nce  [n]o  [v]iew again  [?]"), "{}", screen.text());
            screen.keys("a");
            screen.keys("s");
            screen.keys("y");
            assert!(screen.text().contains("[o]nce  [n]o  [v]iew again  [?]"), "{}", screen.text());
            screen.key("C-c");
            screen.wait_for("EXIT:130");
        }
    }

    #[test]
    fn a_no_tells_the_model_why() {
        let place = Place::new();
        let Some(screen) = ask(&place, "touch made") else { return };
        screen.keys("n");
        screen.wait_for("Why not?");
        screen.keys("use the other filee");
        screen.key("BSpace");
        screen.key("Home");
        screen.paste("please ");
        screen.wait_for("> please use the other file");
        screen.key("Enter");
        screen.wait_for("EXIT:3");
        assert!(screen.text().contains("The owner said no: please use the other file"), "{}", screen.text());
        assert!(!place.has("made"));
        let outcome = place.journal().pop().unwrap();
        assert_eq!(outcome["body"]["error"]["kind"], "approval_denied");
    }

    #[test]
    fn pasted_text_approves_nothing() {
        let place = Place::new();
        let Some(screen) = ask(&place, "touch made") else { return };
        screen.paste("o");
        screen.wait_for("press one key");
        screen.paste("y\ny\n");
        screen.paste_bare("o\no\n");
        screen.paste_bare("oo");
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(screen.text().contains("[o]nce"), "{}", screen.text());
        assert!(!place.has("made"));
        screen.keys("o");
        screen.wait_for("EXIT:0");
        assert!(place.has("made"));
    }

    #[test]
    fn what_was_typed_before_the_question_is_no_answer() {
        let place = Place::new();
        let line = format!("{BARE} 'touch made'");
        let Some(screen) = Screen::start_after(&place, "sleep 1", &line, (100, 30)) else { return };
        screen.keys("o");
        screen.wait_for("[n]o");
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(screen.text().contains("[n]o") && !place.has("made"), "{}", screen.text());
        screen.key("C-c");
        screen.wait_for("EXIT:130");
    }

    #[test]
    fn the_question_follows_the_size_of_the_screen() {
        let place = Place::new();
        let command = format!("touch made; echo {} the end", "0123456789 ".repeat(12));
        let Some(screen) = ask(&place, &command) else { return };
        assert!(screen.text().contains("the end"), "{}", screen.text());
        screen.resize(34, 40);
        screen.wait_until("rows are broken anew", |text| {
            let longest = text.lines().map(|line| line.trim_end().chars().count()).max();
            longest.is_some_and(|longest| longest <= 34) && text.matches("  | ").count() > 4
        });
        screen.resize(60, 8);
        screen.wait_for("-- lines ");
        screen.resize(120, 30);
        screen
            .wait_until("all is shown again", |text| !text.contains("-- lines ") && text.contains("the end"));
        screen.keys("o");
        screen.wait_for("EXIT:0");
        assert!(place.has("made"));
    }

    #[test]
    fn an_interrupt_takes_the_call_back_and_gives_the_terminal_back() {
        let place = Place::new();
        let Some(screen) = ask(&place, "touch made") else { return };
        screen.key("C-c");
        screen.wait_for("EXIT:130");
        assert!(screen.text().contains("cancelled"), "{}", screen.text());
        assert!(!place.has("made"));
        screen.is_as_before();
    }

    #[test]
    fn a_request_to_end_gives_the_terminal_back() {
        let place = Place::new();
        let Some(screen) = ask(&place, "touch made") else { return };
        screen.end_program();
        screen.wait_for("EXIT:130");
        assert!(!place.has("made"));
        screen.is_as_before();
    }

    #[test]
    fn the_shell_gets_the_terminal_back_while_the_question_waits() {
        let place = Place::new();
        let line = format!("{BARE} 'touch made'");
        let Some(screen) = Screen::start_with_jobs(&place, &line, (100, 30)) else { return };
        screen.wait_for("[n]o");
        screen.key("C-z");
        screen.wait_for("STOPPED:");
        screen.is_as_before();
        assert!(!place.has("made"));
        screen.keys("fg\n");
        screen.wait_for("[n]o");
        screen.keys("o");
        screen.wait_for("EXIT:0");
        assert!(place.has("made"));
    }

    #[test]
    fn a_long_command_is_paged_to_its_end_before_it_can_be_allowed() {
        let place = Place::new();
        let lines: String = (1..=60).map(|number| format!("echo line-{number}\n")).collect();
        let Some(screen) = ask(&place, &format!("touch made\n{lines}echo the-end")) else { return };
        assert!(screen.text().contains("-- lines 1-"), "{}", screen.text());
        screen.keys("o");
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert!(!place.has("made"), "allowed before the end was seen");
        let mut seen = String::new();
        for _ in 0..6 {
            let before = screen.text();
            seen.push_str(&before);
            if before.contains("[o]nce") {
                break;
            }
            screen.keys(" ");
            screen.wait_until("the page turns", |text| text != before);
        }
        for number in 1..=60 {
            assert!(seen.contains(&format!("  | echo line-{number}\n")), "line {number} was not shown");
        }
        assert!(seen.contains("  | echo the-end\n"));
        screen.keys("o");
        screen.wait_for("EXIT:0");
        assert!(place.has("made"));
    }

    #[test]
    fn what_hides_is_shown() {
        let place = Place::new();
        let Some(screen) = ask(&place, "touch made # \u{202e}\u{200b}\u{a0}\u{1b}[8mhidden\u{7}") else {
            return;
        };
        let shown = "  | touch made # \\u{202e}\\u{200b}\\u{a0}\\x1b[8mhidden\\x07";
        assert!(screen.text().contains(shown), "{}", screen.text());
        screen.key("C-c");
        screen.wait_for("EXIT:130");
    }

    #[test]
    fn several_questions_of_a_batch_are_asked_at_once() {
        let place = Place::new();
        let call =
            |name: &str| format!(r#"{{"id":"{name}","tool":"exec","args":{{"command":"touch {name}"}}}}"#);
        place.put("calls.jsonl", &format!("[{},{},{}]\n", call("one"), call("two"), call("three")));
        let line = "batch calls.jsonl --session tests --set sandbox=none";
        let Some(screen) = Screen::start(&place, line, (100, 50)) else { return };
        screen.wait_for("[n]o to all");
        assert!(screen.text().contains("Question 3 of 3: open"), "{}", screen.text());
        for name in ["one", "two", "three"] {
            assert!(screen.text().contains(&format!("  | touch {name}\n")), "{}", screen.text());
        }
        screen.key("Down");
        screen.wait_for("> Question 2 of 3");
        screen.key("Enter");
        screen.wait_for("exec wants to run:\n  | touch two");
        screen.keys("n");
        screen.wait_for("Why not?");
        screen.key("Enter");
        screen.wait_for("Question 2 of 3: no");
        screen.keys("o");
        screen.wait_for("EXIT:0");
        assert_eq!(["one", "two", "three"].map(|name| place.has(name)), [true, false, true]);
    }
}
