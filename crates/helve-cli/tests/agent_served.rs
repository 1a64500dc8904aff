//! `helve agent` with a server that speaks as OpenAI's does: where the key comes from and where it never shows, what is said
//! when the server refuses, and Ctrl-C while it answers.

#[cfg(test)]
#[path = "agent/server.rs"]
mod server;
#[cfg(test)]
mod support;

#[cfg(test)]
mod tests {
    use super::server::{Reply, Server};
    use super::support::{Place, Ran, wait_for};
    use pretty_assertions::assert_eq;
    use rustix::process::{Pid, Signal, kill_process};
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Stdio;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(30);
    const SERVED: [&str; 2] = ["--model", "openai-compatible:small"];
    const KEY: &str = "sk-test-0123456789abcdef";

    /// Everything that was written below the state directory but the file of keys.
    fn all_that_is_kept(place: &Place) -> String {
        let mut text = String::new();
        let mut folders = vec![place.home()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false if entry.file_name() == "model-keys" => {}
                    false => text.push_str(&String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap())),
                }
            }
        }
        text
    }

    #[test]
    fn a_server_is_asked_with_the_key_wherever_that_is_kept_and_nothing_shows_it() {
        let ways: [fn(&Place); 3] = [
            |place| place.configure("[model]\nkey_env = 'MY_KEY'"),
            |place| {
                let dir = place.script("key", &format!("echo {KEY}; echo more"));
                place.configure(&format!("[model]\nkey_command = ['{}/key']", dir.display()));
            },
            |place| {
                std::fs::create_dir_all(place.home()).unwrap();
                std::fs::set_permissions(place.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
                let file = place.home().join("model-keys");
                std::fs::write(&file, format!("openai-compatible {KEY}\n")).unwrap();
                std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
            },
        ];
        for (at, way) in ways.into_iter().enumerate() {
            let place = Place::new();
            way(&place);
            let replies = vec![
                Reply::Call("c1", "echo", json!({"message": format!("the key is {KEY}")})),
                Reply::Text(vec!["Do", "ne ", KEY, "."]),
            ];
            let server = Server::start(replies);
            let mut command = place.helve();
            if at == 0 {
                command.env("MY_KEY", KEY);
            }
            command.args(["agent", "--json", "--base-url", &server.url]).args(SERVED).arg("x");
            let output = command.output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(0), "{at}: {text}");
            let asked = server.asked();
            assert_eq!(asked.len(), 2);
            assert_eq!(asked[0].authorization, Some(format!("Bearer {KEY}")), "{at}");
            assert_eq!(asked[0].body["model"], "small");
            let result = asked[1].body["messages"].as_array().unwrap().last().unwrap().clone();
            assert_eq!(result["tool_call_id"], "c1", "{result}");
            assert!(!result.to_string().contains(KEY), "{result}");
            assert!(!all_that_is_kept(&place).contains(KEY), "{at}");
        }
    }

    #[test]
    fn what_a_server_refuses_is_said_without_the_key() {
        let place = Place::new();
        let server =
            Server::start(vec![Reply::Fails(401, "Incorrect API key provided: sk-test-0123456789abcdef")]);
        let mut command = place.helve();
        command.env("OPENAI_API_KEY", KEY);
        command.args(["agent", "--model", "openai:small", "--base-url", &server.url, "x"]);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("the model does not answer") && !text.contains(KEY), "{text}");
        assert!(!all_that_is_kept(&place).contains(KEY));
    }

    /// The one that is named goes on with the talk, and its key, which nobody asked for at the start, shows as little as any.
    #[test]
    fn another_model_goes_on_with_the_talk() {
        let place = Place::new();
        let replies = vec![
            Reply::Call("c1", "echo", json!({"message": format!("the key is {KEY}")})),
            Reply::Text(vec!["Second ", KEY, "."]),
            Reply::Text(vec!["Third."]),
        ];
        let server = Server::start(replies);
        place.configure(&format!("[model]\nbase_url = '{}'", server.url));
        let record = place.root().join("record.jsonl");
        let first = json!({"agent": "answered", "answer": {"text": "First.", "calls": []}});
        std::fs::write(&record, format!("{first}\n")).unwrap();
        let mut command = place.helve();
        command.env("OPENAI_API_KEY", KEY);
        command.args(["chat", "--session", "tests", "--model", &format!("replay:{}", record.display())]);
        let input = "one\n/model openai:small\ntwo\n/model nobody:x\nthree\n/model\n/quit\n";
        let Ran { code, stdout: out, stderr: err } = Place::run_at_keyboard(&mut command, input);
        assert_eq!(code, 0, "{out}{err}");
        // A name that is none changes nothing.
        assert!(err.contains("no provider of the name in 'nobody:x'"), "{err}");
        let at = |part: &str| out.find(part).unwrap_or_else(|| panic!("{part}: {out}{err}"));
        assert!(at("First.") < at("openai:small") && at("openai:small") < at("Second "), "{out}");
        assert!(at("Second ") < at("Third.") && at("Third.") < out.rfind("openai:small").unwrap(), "{out}");
        let asked = server.asked();
        assert_eq!(asked.len(), 3);
        let authorized = asked.iter().all(|one| one.authorization == Some(format!("Bearer {KEY}")));
        assert!(authorized, "{asked:?}");
        // It is told what was said before.
        let told = asked[0].body.to_string();
        for part in ["\"one\"", "First.", "\"two\""] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let kept = all_that_is_kept(&place);
        assert!(!kept.contains(KEY) && !out.contains(KEY) && !err.contains(KEY), "{out}{err}");
        assert!(!asked[2].body.to_string().contains(KEY), "{}", asked[2].body);
        let begun: Vec<serde_json::Value> =
            place.journal().into_iter().filter(|entry| entry["body"]["agent"] == "begin").collect();
        let models: Vec<&serde_json::Value> = begun.iter().map(|entry| &entry["body"]["provider"]).collect();
        assert_eq!(models, [&json!("replay"), &json!("openai"), &json!("openai")]);
    }

    /// A key that was written for one provider is sent to no other, and one that comes too late to be hidden is not used.
    #[test]
    fn the_key_of_one_provider_does_not_reach_another() {
        let place = Place::new();
        let dir = place.script("key", &format!("echo {KEY}"));
        let server = Server::start(vec![Reply::Text(vec!["Done."])]);
        let own = format!("[model]\nuse = 'openai:a'\nkey_command = ['{}/key']", dir.display());
        let loose = format!("[model]\nkey_command = ['{}/key']", dir.display());
        for (config, model, sent) in [
            (&own, "openai:b", true),
            (&own, "openai-compatible:b", false),
            (&own, "anthropic:b", false),
            (&loose, "openai-compatible:b", true),
        ] {
            place.configure(config);
            let before = server.asked().len();
            place.run(&["agent", "--model", model, "--base-url", &server.url, "x"]);
            let asked = server.asked().split_off(before);
            assert_eq!(asked.first().is_some_and(|one| one.keys.contains(KEY)), sent, "{config} {model}");
        }
        // The address of one server is not where the key of another provider goes.
        place.configure(&format!("[model]\nuse = 'openai-compatible:a'\nbase_url = '{}'", server.url));
        let before = server.asked().len();
        let ran = place.run(&["agent", "--model", "gemini:b", "x"]);
        assert!(ran.code == 2 && ran.stderr.contains("There is no key for gemini"), "{ran:?}");
        assert_eq!(server.asked().len(), before);
        place.configure(&own);
        let input = "/model openai:b\n/quit\n";
        let mut command = place.helve();
        command.args(["chat", "--model", "openai-compatible:a", "--base-url", &server.url]);
        let ran = Place::run_at_keyboard(&mut command, input);
        assert!(ran.stderr.contains("was not known when the talk began"), "{ran:?}");
    }

    /// What the command line says is for the model that it is said beside, also where a file names that one.
    #[test]
    fn the_address_and_key_of_the_command_line_are_not_for_another_model_of_the_talk() {
        let server = Server::start(vec![Reply::Text(vec!["Done."])]);
        let place = Place::new();
        place.configure("[model]\nuse = 'openai:a'");
        let mut command = place.helve();
        command.env("MY_KEY", KEY);
        command.args(["chat", "--set", "model.key_env=MY_KEY", "--base-url", &server.url]);
        let input = "one\n/model openai-compatible:b\ntwo\n/model openai:c\nthree\n/quit\n";
        let ran = Place::run_at_keyboard(&mut command, input);
        let asked = server.asked();
        let models: Vec<_> = asked.iter().map(|one| one.body["model"].as_str().unwrap()).collect();
        assert_eq!(models, ["a", "a", "c"], "{ran:?}");
        assert!(ran.stderr.contains("base_url"), "{ran:?}");
        assert!(asked.iter().all(|one| one.keys.contains(KEY)), "{ran:?}");
    }

    /// What a server says of the key, in whichever part of an answer or an error, is not kept.
    #[test]
    fn a_key_that_a_server_tells_is_in_no_part_of_the_record() {
        let place = Place::new();
        let choice = json!({"index": 0, "delta": {"content": "x"}, "finish_reason": KEY});
        let told = json!({"id": "x", "model": KEY, "choices": [choice]});
        let server =
            Server::start(vec![Reply::Event(told), Reply::Fails(400, "no c2stdGVzdC0wMTIzNDU2Nzg5YWJjZGVm")]);
        for _ in 0..2 {
            let mut command = place.helve();
            command.env("OPENAI_API_KEY", KEY);
            command.args(["agent", "--json", "--model", "openai:small", "--base-url", &server.url, "x"]);
            let output = command.output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
            let all = all_that_is_kept(&place) + &text;
            assert!(!all.contains(KEY) && !all.contains("c2stdGVzdC0wMTIz"), "{all}");
        }
        assert_eq!(server.asked().len(), 2);
    }

    /// What was said is kept, and a talk that goes on already is not gone on with by another.
    #[test]
    fn a_talk_belongs_to_one_program_at_a_time_and_keeps_what_was_said() {
        let place = Place::new();
        let server = Server::start(vec![Reply::Silence]);
        let mut command = place.helve();
        command.args(["agent", "--session", "tests", "--base-url", &server.url]).args(SERVED).arg("x");
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(wait_for(LONG, || server.asked().len() == 1));
        std::thread::sleep(Duration::from_millis(200));
        let ran = place.run(&["agent", "--resume", "tests", "--model", "ollama:x", "more"]);
        assert!(ran.code == 2 && ran.stderr.contains("goes on with the session tests now"), "{ran:?}");
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        // One request to end, sent twice, is one.
        kill_process(pid, Signal::TERM).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let _ = kill_process(pid, Signal::TERM);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(err.contains("What was said is kept") && err.contains("the session is tests"), "{err}");
        let kept = place.journal().into_iter().rfind(|entry| entry["body"]["agent"] == "answered").unwrap();
        let answer = &kept["body"]["answer"];
        assert_eq!((&answer["text"], &answer["stop"]), (&json!("Wait"), &json!({"other": "stopped"})));
    }

    #[test]
    fn a_run_whose_output_nobody_reads_is_stopped_and_says_so() {
        let place = Place::new();
        let server = Server::start(vec![Reply::Silence]);
        let mut command = place.helve();
        command.args(["agent", "--json", "--base-url", &server.url]).args(SERVED).arg("x");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("nobody reads the output"));
    }

    #[test]
    fn ctrl_c_while_the_model_answers_stops_the_run() {
        let place = Place::new();
        let server = Server::start(vec![Reply::Silence]);
        let mut command = place.helve();
        command.args(["agent", "--base-url", &server.url]).args(SERVED).arg("x");
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(wait_for(LONG, || server.asked().len() == 1));
        std::thread::sleep(Duration::from_millis(200));
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
    }
}
