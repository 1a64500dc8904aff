//! `helve agent` and `helve chat` as people and programs use them: exit codes, what stands on which output, resuming,
//! Ctrl-C, and questions on a terminal that tmux makes. The model's side comes from a record; every call is really made.
//!
//! Long file: one scene after the other over the same helpers.

#[cfg(test)]
#[path = "agent/scripted.rs"]
mod scripted;
#[cfg(test)]
mod support;
#[cfg(test)]
#[path = "prompt/tmux.rs"]
mod tmux;
#[cfg(test)]
#[path = "agent/unread.rs"]
mod unread;

#[cfg(test)]
mod tests {
    use super::scripted::{answered, echo, exec, record};
    use super::support::{Place, Ran, json_lines, running_with, sandbox_works, unique_seconds, wait_for};
    use super::tmux::Screen;
    use pretty_assertions::assert_eq;
    use rustix::process::{Pid, Signal, kill_process};
    use serde_json::{Value, json};
    use std::process::{Child, Stdio};
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(30);

    /// Under these settings commands run bare, and what changes something asks.
    const BARE: [&str; 2] = ["--set", "sandbox=none"];

    fn agent(place: &Place, model: &str, more: &[&str]) -> Ran {
        place.run(&[&["agent", "--model", model, "--session", "tests"], more].concat())
    }

    #[test]
    fn without_a_model_it_says_how_to_get_one() {
        let place = Place::new();
        for words in [&["agent", "do it"][..], &["chat"]] {
            let ran = place.run(words);
            assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
            for part in [
                "no model is configured",
                "--model ollama:NAME",
                "ANTHROPIC_API_KEY=",
                "base_url",
                "`helve demo`",
            ] {
                assert!(ran.stderr.contains(part), "{part}: {ran:?}");
            }
        }
        let model = record(&place, &[answered("One.", &[])]);
        let ran = place.run(&["agent", "--json", "do it"]);
        let line: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((ran.code, &line["error"]["kind"]), (2, &json!("invalid_params")));
        for (words, part) in [
            (&["agent", "--model", "gpt", "x"][..], "provider:name"),
            (&["agent", "--model", "nobody:x", "x"], "anthropic, gemini"),
            (
                &["agent", "--model", "openai-compatible:x", "--base-url", "http://example.com", "x"],
                "this machine",
            ),
            (&["agent", "--model", "openai:x", "--max-rounds", "0", "x"], "agent.rounds"),
            (&["agent", "--model", "replay:/no/such", "x"], "/no/such"),
            (&["agent", "--model", "replay:/no/such", " "], "the task is empty"),
            (&["agent", "--model", &model, "--approve", "", "x"], "--approve"),
        ] {
            let ran = place.run(words);
            assert!(ran.code == 2 && ran.stderr.contains(part), "{words:?}: {ran:?}");
        }
    }

    /// What lies in a workspace must not choose where words and keys go, even if the owner trusts the rest of it.
    #[test]
    fn a_workspace_chooses_no_model() {
        let place = Place::new();
        place.put("helve.toml", "model.use = 'ollama:x'\nmodel.base_url = 'http://127.0.0.1:9/v1'\n");
        let ran = place.run(&["agent", "x"]);
        assert!(ran.code == 2 && ran.stderr.contains("no model is configured"), "{ran:?}");
        let ran = place.run(&["trust"]);
        assert!(
            ran.code == 2 && ran.stderr.contains("cannot choose a model, an address or a key"),
            "{ran:?}"
        );
    }

    #[test]
    fn a_run_prints_the_answer_and_tells_the_rest_beside_it() {
        let place = Place::new();
        let answers = [
            answered("I look.\u{1b}[2J", &[echo("a", "\u{1b}]0;title\u{7}hi"), echo("b", "there")]),
            answered("Done.\u{1b}[31m", &[]),
        ];
        let model = record(&place, &answers);
        let ran = agent(&place, &model, &["do it"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "Done.\\x1b[31m\n"), "{ran:?}");
        for part in
            ["I look.\\x1b[2J\n", "> echo \\x1b]0;title\\x07hi\n", "> echo there\n", "ok (", "2 rounds, "]
        {
            assert!(ran.stderr.contains(part), "{part}: {ran:?}");
        }
        assert!(!ran.stderr.contains('\u{1b}') && !ran.stderr.contains('\u{7}'), "{ran:?}");
        let kinds: Vec<Value> = place.journal().iter().map(|entry| entry["body"]["agent"].clone()).collect();
        assert_eq!(
            (&kinds[0], &kinds[1], kinds.last()),
            (&json!("begin"), &json!("said"), Some(&json!("end")))
        );
        let planned: Vec<Value> =
            place.journal().into_iter().filter(|entry| entry["type"] == "planned").collect();
        assert_eq!(planned.len(), 2);
        assert_eq!(planned[0]["body"]["caller"], "agent", "{}", planned[0]);
        assert_eq!(place.verify().code, 0);
    }

    #[test]
    fn programs_read_events() {
        let place = Place::new();
        let model = record(&place, &[answered("", &[echo("a", "hi")]), answered("Done.", &[])]);
        let ran = place.run_with_input(&["agent", "--json", "--model", &model, "-"], b"do it\n");
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
        let events = json_lines(&ran.stdout);
        let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
        let expected = ["begin", "round", "answer", "calls", "result", "round", "answer", "end"];
        let without_pieces: Vec<&str> = names.into_iter().filter(|name| *name != "piece").collect();
        assert_eq!(without_pieces, expected);
        let end = events.last().unwrap();
        assert_eq!(
            (&end["ending"], &end["text"], &end["rounds"]),
            (&json!("answered"), &json!("Done."), &json!(2))
        );
        let result = events.iter().find(|event| event["event"] == "result").unwrap();
        assert_eq!((&result["id"], &result["result"]["ok"]), (&json!("a"), &json!(true)));
    }

    #[test]
    fn bounds_and_records_that_end_have_their_codes() {
        let place = Place::new();
        let model = record(&place, &[answered("", &[echo("a", "1")]), answered("", &[echo("b", "2")])]);
        let ran = agent(&place, &model, &["--max-rounds", "1", "x"]);
        assert!(ran.code == 1 && ran.stderr.contains("--max-rounds or `agent.rounds`"), "{ran:?}");
        let ran = agent(&place, &model, &["x"]);
        assert!(ran.code == 1 && ran.stderr.contains("2 answers"), "{ran:?}");
    }

    #[test]
    fn a_call_of_a_tool_that_is_not_shown_is_not_made() {
        let place = Place::new();
        let write = ("a", "write_file", json!({"path": "x.txt", "content": "new"}));
        let model =
            record(&place, &[answered("I write.", &[write, echo("b", "hi")]), answered("Done.", &[])]);
        let ran = agent(&place, &model, &["--toolset", "readonly", "x"]);
        assert!(ran.code == 0 && !place.has("x.txt"), "{ran:?}");
        for part in [
            "> write_file x.txt content=new\n  not run\n",
            "not in the toolset 'readonly'",
            "> echo hi\n  ok (",
        ] {
            assert!(ran.stderr.contains(part), "{part}: {ran:?}");
        }
        let ran = agent(&place, &model, &["--toolset", "readonly", "--json", "x"]);
        let events = json_lines(&ran.stdout);
        let not_run = events.iter().find(|event| event["event"] == "not_run").unwrap();
        assert_eq!(not_run["id"], "a");
    }

    #[test]
    fn a_talk_is_gone_on_with() {
        let place = Place::new();
        let answers = [answered("First.", &[echo("a", "1")]), answered("One.", &[]), answered("Two.", &[])];
        let model = record(&place, &answers);
        let ran = agent(&place, &model, &["x"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "One.\n"));
        let ran = place.run(&["agent", "--model", &model, "--resume", "tests", "more"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "Two.\n"), "{ran:?}");
        assert!(ran.stderr.contains("the session is tests"), "{ran:?}");
        let said = place.journal().into_iter().filter(|entry| entry["body"]["agent"] == "said");
        let said: Vec<Value> = said.map(|entry| entry["body"]["message"]["text"].clone()).collect();
        assert_eq!(said, [json!("x"), json!("more")]);
        let ran = place.run(&["agent", "--model", &model, "--resume", "absent", "more"]);
        assert!(ran.code == 1 && ran.stderr.contains("there is no session \"absent\""), "{ran:?}");
    }

    /// Whoever writes into a pipe may pass on words of others: they are all for the model.
    #[test]
    fn from_a_pipe_every_line_is_a_message() {
        let place = Place::new();
        let write = ("a", "write_file", json!({"path": "x.txt", "content": "new\n"}));
        let answers = [answered("", &[write]), answered("1.", &[]), answered("2.", &[]), answered("3.", &[])];
        let model = record(&place, &answers);
        let input = b"make it\n/undo\n/quit\n";
        let ran = place.run_with_input(&["chat", "--session", "tests", "--model", &model], input);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "1.\n2.\n3.\n"), "{ran:?}");
        let said = place.journal().into_iter().filter(|entry| entry["body"]["agent"] == "said");
        let said: Vec<Value> = said.map(|entry| entry["body"]["message"]["text"].clone()).collect();
        assert_eq!(said, [json!("make it"), json!("/undo"), json!("/quit")]);
        assert!(place.has("x.txt"));
    }

    #[test]
    fn what_is_not_utf_8_is_told_and_the_rest_is_said() {
        let place = Place::new();
        let model = record(&place, &[answered("1.", &[]), answered("2.", &[])]);
        let input = b"caf\xe9 au lait\nand now?\n";
        let ran = place.run_with_input(&["chat", "--session", "tests", "--model", &model], input);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "1.\n2.\n"), "{ran:?}");
        assert_eq!(ran.stderr.matches("not all UTF-8").count(), 1, "{ran:?}");
        let said = place.journal().into_iter().filter(|entry| entry["body"]["agent"] == "said");
        let said: Vec<Value> = said.map(|entry| entry["body"]["message"]["text"].clone()).collect();
        assert_eq!(said, [json!("caf\u{fffd} au lait"), json!("and now?")]);
        let model = record(&place, &[answered("Read.", &[])]);
        let ran = place.run_with_input(&["agent", "--model", &model, "-"], b"a \xff b");
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "Read.\n"), "{ran:?}");
        assert!(ran.stderr.contains("not all UTF-8"), "{ran:?}");
    }

    #[test]
    fn a_talk_in_plain_lines_and_what_is_asked_of_helve_in_it() {
        let place = Place::new();
        let write = ("a", "write_file", json!({"path": "x.txt", "content": "new\n"}));
        let answers = [answered("I write.", &[write]), answered("Written.", &[]), answered("Bye.", &[])];
        let model = record(&place, &answers);
        let input = "make\\\nx.txt\n/diff\n/tools\n/cost\n/model\n/nonsense\n/undo\n\"\"\"\nand\nnow?\n\"\"\"\n/quit\nnever\n";
        let ran = Place::run_at_keyboard(place.helve().args(["chat", "--model", &model]), input);
        assert_eq!(ran.code, 0, "{ran:?}");
        let out = &ran.stdout;
        for part in ["Written.\n", "+new", "write_file", "0 tokens read", "replay:", "Bye.\n"] {
            assert!(out.contains(part), "{part}: {ran:?}");
        }
        assert!(!out.contains("I write.") && !out.contains('\u{1b}') && !out.contains("> "), "{ran:?}");
        assert!(ran.stderr.contains("there is no /nonsense") && !place.has("x.txt"), "{ran:?}");
        let session = place.home().join("sessions");
        let session = std::fs::read_dir(session).unwrap().next().unwrap().unwrap().file_name();
        let session = session.into_string().unwrap();
        assert!(session.starts_with("chat-"), "{session}");
        // The last talk of this workspace is the one that is meant, and another workspace has none.
        std::fs::write(place.root().join("record.jsonl"), {
            let more = answered("Again.", &[]);
            let old: String = answers.iter().map(|answer| format!("{answer}\n")).collect();
            format!("{old}{more}\n")
        })
        .unwrap();
        let ran = place.run_with_input(&["chat", "--model", &model, "--resume"], b"hello\n");
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "Again.\n"), "{ran:?}");
        assert!(ran.stderr.contains(&session), "{ran:?}");
        let journal =
            std::fs::read_to_string(place.home().join(format!("sessions/{session}/journal.jsonl"))).unwrap();
        let said = json_lines(&journal).into_iter().filter(|entry| entry["body"]["agent"] == "said");
        let said: Vec<String> =
            said.map(|entry| entry["body"]["message"]["text"].as_str().unwrap().to_owned()).collect();
        assert_eq!((said[0].as_str(), said[2].as_str()), ("make\nx.txt", "hello"));
        assert!(
            said[1].starts_with("(The owner has undone the call c_") && said[1].ends_with("and\nnow?"),
            "{said:?}"
        );
        let outside = place.outside();
        let elsewhere = ["chat", "--model", &model, "--resume", "--workspace", outside.to_str().unwrap()];
        let ran = place.run(&elsewhere);
        assert!(ran.code == 1 && ran.stderr.contains("no talk of this workspace"), "{ran:?}");
    }

    #[test]
    fn where_nobody_is_there_the_model_is_told_unless_a_rule_agrees() {
        let place = Place::new();
        let answers =
            [answered("", &[exec("a", "touch made"), exec("b", "touch other")]), answered("Done.", &[])];
        let model = record(&place, &answers);
        let results = |ran: &Ran| -> Vec<Value> {
            // They come as the calls end.
            let of = |id: &str| {
                let mut events = json_lines(&ran.stdout).into_iter();
                events.find(|event| event["event"] == "result" && event["id"] == id)
            };
            ["a", "b"]
                .into_iter()
                .filter_map(of)
                .map(|event| event["result"]["error"]["kind"].clone())
                .collect()
        };
        let ran = agent(&place, &model, &[&BARE[..], &["--json", "x"]].concat());
        assert_eq!(results(&ran), [json!("approval_required"), json!("approval_required")], "{ran:?}");
        let rules = [&BARE[..], &["--json", "--approve", "touch made", "x"]].concat();
        let ran = agent(&place, &model, &rules);
        assert_eq!(results(&ran), [Value::Null, json!("approval_required")], "{ran:?}");
        assert!(place.has("made") && !place.has("other"));
        place.put("../rules", "# mine\ntouch *\n");
        let file = format!("@{}", place.root().join("rules").display());
        let ran = agent(&place, &model, &[&BARE[..], &["--json", "--approve", &file, "x"]].concat());
        assert_eq!(results(&ran), [Value::Null, Value::Null], "{ran:?}");
        assert!(place.has("other"));
        let answer = place.journal().into_iter().rfind(|entry| entry["type"] == "planned").unwrap();
        assert!(answer.to_string().contains("--approve"), "{answer}");
    }

    /// Starts a run and waits until its command sleeps.
    fn sleeping(place: &Place, seconds: &str, answers: &[Value]) -> Child {
        let model = record(place, answers);
        let mut command = place.helve();
        command.args(["agent", "--model", &model, "--session", "tests", "x"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(wait_for(LONG, || !running_with(&format!("sleep {seconds}")).is_empty()));
        child
    }

    fn interrupt(child: &Child) {
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    }

    fn ended(child: Child) -> (i32, String, String) {
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    #[test]
    fn ctrl_c_once_stops_the_call_and_the_model_goes_on() {
        if !sandbox_works() {
            return;
        }
        let (place, seconds) = (Place::new(), unique_seconds());
        let answers =
            [answered("", &[exec("a", &format!("sleep {seconds}"))]), answered("It was stopped.", &[])];
        let child = sleeping(&place, &seconds, &answers);
        interrupt(&child);
        let (code, stdout, stderr) = ended(child);
        assert_eq!((code, stdout.as_str()), (0, "It was stopped.\n"), "{stderr}");
        assert!(stderr.contains("Ctrl-C again stops the run"), "{stderr}");
        assert!(wait_for(LONG, || running_with(&seconds).is_empty()));
        let outcome = place.journal().into_iter().find(|entry| entry["type"] == "outcome").unwrap();
        assert_eq!(outcome["body"]["error"]["kind"], "cancelled");
    }

    #[test]
    fn ctrl_c_twice_stops_the_run_and_it_can_be_resumed() {
        if !sandbox_works() {
            return;
        }
        let (place, seconds) = (Place::new(), unique_seconds());
        let sleep = format!("sleep {seconds}");
        let answers = [
            answered("", &[exec("a", &sleep), echo("b", "hi")]),
            answered("", &[exec("c", &sleep)]),
            answered("Gone on.", &[]),
        ];
        let child = sleeping(&place, &seconds, &answers);
        interrupt(&child);
        std::thread::sleep(Duration::from_millis(500));
        interrupt(&child);
        let (code, stdout, stderr) = ended(child);
        assert_eq!((code, stdout.as_str()), (130, ""), "{stderr}");
        assert!(wait_for(LONG, || running_with(&seconds).is_empty()));
        let model = format!("replay:{}", place.root().join("record.jsonl").display());
        let ran = place.run(&["agent", "--model", &model, "--resume", "tests", "go on"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "Gone on.\n"), "{ran:?}");
        assert_eq!(place.verify().code, 0);
    }

    /// `helve agent` on a screen, with a record of these answers; without a sandbox, so that every change asks.
    fn on_screen(place: &Place, answers: &[Value], size: (u16, u16)) -> Option<Screen> {
        let model = record(place, answers);
        Screen::start(
            place,
            &format!("agent --session tests {} --model '{model}' 'do it'", BARE.join(" ")),
            size,
        )
    }

    #[test]
    fn the_questions_of_a_turn_are_asked_at_once() {
        let place = Place::new();
        let answers = [
            answered("I make two files.", &[exec("a", "touch made"), exec("b", "touch other")]),
            answered("Then another.", &[exec("c", "touch third")]),
            answered("All done.", &[]),
        ];
        let Some(screen) = on_screen(&place, &answers, (80, 24)) else { return };
        screen.wait_for("touch made");
        screen.wait_for("touch other");
        screen.wait_for("all that are left");
        screen.keys("n");
        screen.wait_for("Why not?");
        screen.keys("neither\n");
        screen.wait_for("touch third");
        screen.wait_for("[n]o");
        screen.keys("o");
        screen.wait_for("EXIT:0");
        let text = screen.text();
        assert_eq!(text.matches("The owner said no: neither").count(), 2, "{text}");
        assert!(place.has("third") && !place.has("made") && !place.has("other"), "{text}");
    }

    #[test]
    fn once_always_and_no_on_a_terminal_of_eighty_columns() {
        let place = Place::new();
        let answers = [
            answered("I make a file.", &[exec("a", "touch once")]),
            answered("And one more.", &[exec("b", "touch always")]),
            answered("And again.", &[exec("c", "touch always")]),
            answered("And a last one.", &[exec("d", "touch never")]),
            answered("All done.", &[]),
        ];
        let Some(screen) = on_screen(&place, &answers, (80, 24)) else { return };
        screen.wait_for("touch once");
        screen.wait_for("[n]o");
        screen.keys("o");
        screen.wait_for("touch always");
        screen.wait_for("[a]lways");
        screen.keys("a");
        screen.wait_for("from now on allow without asking:");
        screen.keys("y");
        // The same is not asked about again.
        screen.wait_for("touch never");
        screen.wait_for("[n]o");
        assert!(place.has("once") && place.has("always"));
        screen.keys("n");
        screen.wait_for("Why not?");
        screen.keys("not that one\n");
        screen.wait_for("EXIT:0");
        let text = screen.text();
        for part in
            ["All done.", "refused: touch never", "The owner said no: not that one", "> exec touch never"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!place.has("never"));
        screen.is_as_before();
        let rules: Vec<Value> =
            serde_json::from_str(&place.run(&["approvals", "list", "--json"]).stdout).unwrap();
        assert_eq!(
            (rules.len(), &rules[0]["pattern"], &rules[0]["uses"]),
            (1, &json!("touch always"), &json!(1))
        );
        let outcome = place.journal().into_iter().rfind(|entry| entry["type"] == "outcome").unwrap();
        assert!(outcome.to_string().contains("not that one"), "{outcome}");
    }

    #[test]
    fn ctrl_c_at_a_question_stops_the_calls_and_not_the_run() {
        let place = Place::new();
        let answers =
            [answered("I make it.", &[exec("a", "touch made")]), answered("You did not want it.", &[])];
        let Some(screen) = on_screen(&place, &answers, (80, 24)) else { return };
        screen.wait_for("[n]o");
        screen.key("C-c");
        screen.wait_for("EXIT:0");
        assert!(screen.text().contains("You did not want it."), "{}", screen.text());
        assert!(!place.has("made"));
        screen.is_as_before();
    }

    #[test]
    fn keys_of_a_terminal_stop_a_call_and_then_a_run() {
        if !sandbox_works() {
            return;
        }
        let (place, seconds) = (Place::new(), unique_seconds());
        let answers = [
            answered("I sleep.", &[exec("a", &format!("echo begun; sleep {seconds}"))]),
            answered("Stopped; once more.", &[exec("b", &format!("sleep {seconds}"))]),
            answered("And again.", &[exec("c", &format!("sleep {seconds}"))]),
            answered("Never.", &[]),
        ];
        let model = record(&place, &answers);
        let start = format!("agent --session tests --model '{model}' 'do it'");
        let Some(screen) = Screen::start_after(&place, "trap : INT", &start, (80, 24)) else { return };
        // The live line has the last line of output and how long it takes.
        screen.wait_until("the live line", |text| text.lines().any(|line| line.contains(" s  begun")));
        screen.key("C-c");
        screen.wait_for("Stopped; once more.");
        std::thread::sleep(Duration::from_secs(2));
        assert!(wait_for(LONG, || !running_with(&format!("sleep {seconds}")).is_empty()));
        screen.key("C-c");
        screen.wait_for("And again.");
        screen.key("C-c");
        screen.wait_for("EXIT:130");
        assert!(wait_for(LONG, || running_with(&seconds).is_empty()));
        screen.is_as_before();
    }

    #[test]
    fn a_line_that_is_typed_meanwhile_is_told_to_the_model() {
        if !sandbox_works() {
            return;
        }
        let place = Place::new();
        let answers = [answered("I wait.", &[exec("a", "sleep 3")]), answered("Heard.", &[])];
        let model = record(&place, &answers);
        let start = format!("agent --session tests --model '{model}' 'do it'");
        let Some(screen) = Screen::start(&place, &start, (80, 24)) else { return };
        screen.wait_for("> exec sleep 3");
        screen.keys("not so fastt");
        screen.key("BSpace");
        screen.wait_for(" > not so fast");
        screen.key("Enter");
        screen.wait_for("you: not so fast");
        screen.wait_for("EXIT:0");
        assert!(screen.text().contains("Heard."), "{}", screen.text());
        screen.is_as_before();
        let said = place.journal().into_iter().filter(|entry| entry["body"]["agent"] == "said");
        let said: Vec<Value> = said.map(|entry| entry["body"]["message"]["text"].clone()).collect();
        assert_eq!(said, [json!("do it"), json!("not so fast")]);
    }

    /// What a model is told of a workspace is what the owner looked at.
    #[test]
    fn notes_of_a_workspace_count_when_they_are_trusted() {
        let place = Place::new();
        place.put("AGENTS.md", "Always say please.\n");
        let model = record(&place, &[answered("One.", &[])]);
        let ran = agent(&place, &model, &["x"]);
        assert!(ran.stderr.contains("`helve trust AGENTS.md` shows and trusts it"), "{ran:?}");
        let ran = place.run(&["trust", "AGENTS.md"]);
        assert!(ran.code == 0 && ran.stdout.contains("  | Always say please."), "{ran:?}");
        let before = place.journal().into_iter().find(|entry| entry["body"]["agent"] == "begin").unwrap();
        let ran = agent(&place, &model, &["x"]);
        assert!(ran.code == 0 && !ran.stderr.contains("AGENTS.md"), "{ran:?}");
        let after = place.journal().into_iter().rfind(|entry| entry["body"]["agent"] == "begin").unwrap();
        assert_ne!(before["body"]["system"], after["body"]["system"]);
        assert_eq!(place.run(&["trust", "--revoke", "AGENTS.md"]).code, 0);
        assert!(agent(&place, &model, &["x"]).stderr.contains("helve trust AGENTS.md"));
    }

    #[test]
    fn a_talk_on_a_terminal_with_editing_history_and_resuming() {
        let place = Place::new();
        let answers = [answered("One.", &[]), answered("Two.", &[]), answered("Three.", &[])];
        let model = record(&place, &answers);
        let start = format!("chat --model '{model}'");
        let Some(screen) = Screen::start(&place, &start, (80, 24)) else { return };
        screen.wait_for("/help says what else there is");
        screen.keys("hellp");
        screen.key("BSpace");
        screen.keys("o\n");
        screen.wait_for("One.");
        screen.wait_for("1 round");
        screen.key("Up");
        screen.wait_until("the line of before", |text| text.trim_end().ends_with("> hello"));
        screen.key("C-c");
        screen.wait_for("/quit ends the talk");
        screen.keys("two\\\nlines\n");
        screen.wait_for("Two.");
        screen.keys("/quit\n");
        screen.wait_for("EXIT:0");
        screen.is_as_before();
        let Some(screen) = Screen::start(&place, &format!("{start} --resume"), (80, 24)) else { return };
        screen.wait_for("you said last: two lines");
        screen.keys("three\n");
        screen.wait_for("Three.");
        screen.key("C-d");
        screen.wait_for("EXIT:0");
    }

    #[test]
    fn a_terminal_that_can_only_print_gets_plain_lines() {
        let place = Place::new();
        let model = record(&place, &[answered("", &[echo("a", "hi")]), answered("One.", &[])]);
        let start = format!("chat --model '{model}'");
        let Some(screen) = Screen::start_after(&place, "export TERM=dumb", &start, (80, 24)) else { return };
        // What is typed before the prompt is there would stand before it.
        screen.wait_until("the prompt", |text| text.trim_end().ends_with('>'));
        screen.keys("hello\n");
        screen.wait_for("One.");
        screen.key("C-d");
        screen.wait_for("EXIT:0");
        let text = screen.text();
        assert!(text.contains("> hello") && text.contains("> echo hi"), "{text}");
    }
}
