//! One hostile server of `servers.py`, beside a plain one, behind `helve mcp --gateway`.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How many seconds a call may take where a case names no bound of its own: so long that only what hangs takes longer.
const PATIENCE: f64 = 90.0;

use crate::client::Client;
use crate::support::{Place, running_with, unique_seconds, wait_for};

const SERVERS: &str = include_str!("servers.py");
/// Stands in a file that neither a server nor a client may read.
const CANARY: &str = "canary-8c1f";
/// By how much Helve may grow in a case that names no other limit, in MiB.
const GROWTH: u64 = 96;

/// The configuration of one server of `servers.py`.
pub(crate) fn server(name: &str, words: &[String], more: &str) -> String {
    let args: Vec<String> =
        ["servers.py"].into_iter().map(str::to_owned).chain(words.iter().cloned()).collect();
    format!("[mcp.servers.{name}]\ncommand = 'python3'\nargs = {}\n{more}\n", Value::from(args))
}

/// A place whose workspace holds the servers, and whose outside holds a secret.
pub(crate) fn place() -> Place {
    let place = Place::new();
    place.put("servers.py", SERVERS);
    std::fs::write(place.outside().join("secret.txt"), CANARY).unwrap();
    place
}

/// Plays one case.
pub(crate) fn play(case: &Value) -> Result<(), String> {
    let place = place();
    let mark = format!("mark-{}", unique_seconds());
    let secret = place.outside().join("secret.txt").display().to_string();
    let fill = |value: &Value| value.as_str().unwrap().replace("@SECRET@", &secret);
    let mut words = vec![case["kind"].as_str().unwrap().to_owned()];
    words.extend(case["words"].as_array().into_iter().flatten().map(fill));
    words.push(mark.clone());
    let more = |key: &str| case[key].as_str().unwrap_or_default().to_owned();
    let good = ["Plain".to_owned(), mark.clone()];
    place.configure(&format!(
        "{}\n{}{}",
        more("top"),
        server("bad", &words, &more("config")),
        server("good", &good, "approval = 'never'")
    ));
    let mut options = vec!["--gateway"];
    options.extend(case["options"].as_array().into_iter().flatten().filter_map(Value::as_str));
    let mut client = Client::with(&place, &options, &[]);
    client.initialize(case.get("client").cloned().unwrap_or_else(|| json!({})));
    let before = memory(client.pid(), "VmRSS:");
    let mut scene = Scene { client, place: &place, secret };
    for step in case["steps"].as_array().unwrap() {
        scene.step(step).map_err(|problem| format!("{step}: {problem}"))?;
    }
    scene.others_are_served()?;
    let after = memory(scene.client.pid(), "VmHWM:");
    let limit = case["growth_mib"].as_u64().unwrap_or(GROWTH);
    if after.saturating_sub(before) > limit << 10 {
        return Err(format!("it grew from {before} to {after} KiB, by more than {limit} MiB"));
    }
    let asked = scene.client.others().iter().filter(|message| message.get("id").is_some()).count();
    let most = usize::try_from(case["questions"].as_u64().unwrap_or(0)).unwrap();
    if asked > most {
        return Err(format!("the client was asked {asked} times, not at most {most}"));
    }
    let told: Vec<Value> = scene.client.others().to_vec();
    told.iter().try_for_each(harmless)?;
    let from = Instant::now();
    let code = scene.client.end();
    if code != Some(0) || from.elapsed() > Duration::from_secs(30) {
        return Err(format!("it ended with {code:?} after {:?}", from.elapsed()));
    }
    if !wait_for(Duration::from_secs(10), || running_with(&mark).is_empty()) {
        return Err(format!("left running: {:?}", running_with(&mark)));
    }
    Ok(())
}

struct Scene<'p> {
    client: Client,
    place: &'p Place,
    secret: String,
}

impl Scene<'_> {
    fn step(&mut self, step: &Value) -> Result<(), String> {
        match () {
            () if step.get("call").is_some() => self.call(step),
            () if step.get("listed").is_some() => self.listed(&step["listed"]),
            () if step.get("test").is_some() => self.test(&step["test"]),
            () if step.get("log").is_some() => self.log(&step["log"]),
            () if step.get("wait_ms").is_some() => {
                std::thread::sleep(Duration::from_millis(step["wait_ms"].as_u64().unwrap()));
                Ok(())
            }
            () => Err("no such step".to_owned()),
        }
    }

    /// A call of a tool: `go` is the hostile server's, `good:echo` the other's, `own:exec` Helve's.
    fn call(&mut self, step: &Value) -> Result<(), String> {
        let name = match step["call"].as_str().unwrap().split_once(':') {
            None => format!("mcp__bad__{}", step["call"].as_str().unwrap()),
            Some(("own", tool)) => tool.to_owned(),
            Some((server, tool)) => format!("mcp__{server}__{tool}"),
        };
        let args = step.get("args").cloned().unwrap_or_else(|| json!({}));
        let args = args.to_string().replace("@SECRET@", &self.secret).replace("@LONG@", &"x".repeat(300_000));
        let args: Value = serde_json::from_str(&args).unwrap();
        let from = Instant::now();
        let response = self.client.call_when_started(&name, &args);
        let took = from.elapsed();
        harmless(&response)?;
        if took.as_secs_f64() > step["within"].as_f64().unwrap_or(PATIENCE) {
            return Err(format!("it took {took:?}"));
        }
        let result = &response["result"];
        if step["any"] == true {
            return Ok(());
        }
        let kind = kind(&response);
        if kind.as_deref() != step["error"].as_str() {
            return Err(format!("{kind:?}: {}", short(&response)));
        }
        if let Some(text) = step["text"].as_str()
            && result["content"][0]["text"] != text
        {
            return Err(short(&response));
        }
        says(&response.to_string(), step)
    }

    /// The tools that the client is shown; those that must be there may take a moment.
    fn listed(&mut self, wanted: &Value) -> Result<(), String> {
        let names = |key: &str| -> Vec<String> {
            wanted[key]
                .as_array()
                .into_iter()
                .flatten()
                .map(|name| name.as_str().unwrap().to_owned())
                .collect()
        };
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let tools = self.client.tools();
            tools.iter().try_for_each(harmless)?;
            let is_listed = |name: &String| tools.iter().any(|tool| tool["name"] == **name);
            let missing: Vec<String> = names("has").into_iter().filter(|name| !is_listed(name)).collect();
            let most = wanted["most"].as_u64().unwrap_or(u64::MAX);
            if missing.is_empty() && tools.len() as u64 <= most {
                if let Some(name) = names("lacks").into_iter().find(is_listed) {
                    return Err(format!("{name} is listed"));
                }
                return says(&Value::from(tools).to_string(), wanted);
            }
            if Instant::now() > until {
                return Err(format!("{missing:?} are not listed, {} are", tools.len()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What `helve mcp test` says of the server.
    fn test(&self, wanted: &Value) -> Result<(), String> {
        let ran = self.place.run(&["mcp", "test", "bad", "--json"]);
        let report: Value = serde_json::from_str(&ran.stdout).map_err(|_| format!("{ran:?}"))?;
        harmless(&report)?;
        if report["ok"] != wanted.get("ok").cloned().unwrap_or(json!(true)) {
            return Err(short(&report));
        }
        let rejected = report["rejected"].as_array().cloned().unwrap_or_default();
        for (name, reason) in wanted["rejected"].as_object().into_iter().flatten() {
            let reason = reason.as_str().unwrap();
            let is = |tool: &Value| {
                tool["tool"].as_str().unwrap().starts_with(name.as_str())
                    && tool["reason"].as_str().unwrap().contains(reason)
            };
            if !rejected.iter().any(is) {
                return Err(format!("{name} is not left out because of {reason}: {rejected:?}"));
            }
        }
        for (name, standing) in wanted["standing"].as_object().into_iter().flatten() {
            let tools = report["tools"].as_array().unwrap();
            if !tools.iter().any(|tool| tool["tool"] == **name && tool["standing"] == *standing) {
                return Err(format!("{name} is not {standing}: {}", short(&report)));
            }
        }
        says(&report.to_string(), wanted)
    }

    fn log(&self, wanted: &Value) -> Result<(), String> {
        let ran = self.place.run(&["mcp", "logs", "bad", "--json"]);
        if let Some(most) = wanted["most_bytes"].as_u64()
            && ran.stdout.len() as u64 > most
        {
            return Err(format!("the log has {} bytes", ran.stdout.len()));
        }
        says(&ran.stdout, wanted)
    }

    fn others_are_served(&mut self) -> Result<(), String> {
        let from = Instant::now();
        let answer =
            self.client.call_when_started("mcp__good__echo", &json!({"say": "still here"}))["result"].take();
        if answer["content"][0]["text"] != "still here" || from.elapsed() > Duration::from_secs(10) {
            return Err(format!("the other server answers after {:?}: {}", from.elapsed(), short(&answer)));
        }
        Ok(())
    }
}

/// What an answer must and must not hold.
fn says(text: &str, wanted: &Value) -> Result<(), String> {
    let words = |key: &str| -> Vec<String> {
        let one = wanted[key].as_str().map(str::to_owned);
        let many = wanted[key].as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned());
        one.into_iter().chain(many).collect()
    };
    if let Some(missing) = words("says").iter().find(|word| !text.contains(word.as_str())) {
        return Err(format!("it does not say {missing:?}: {}", text.chars().take(2000).collect::<String>()));
    }
    if let Some(word) = words("never").iter().find(|word| text.contains(word.as_str())) {
        return Err(format!("it says {word:?}: {}", text.chars().take(2000).collect::<String>()));
    }
    Ok(())
}

/// The kind of error that a response to a call is; none if it worked.
fn kind(response: &Value) -> Option<String> {
    if let Some(error) = response.get("error") {
        return Some(error["code"].to_string());
    }
    let result = &response["result"];
    if result["isError"] != true {
        return None;
    }
    let last =
        result["content"].as_array().and_then(|blocks| blocks.last()?["text"].as_str()).unwrap_or_default();
    let named = last.strip_prefix('[').and_then(|last| last.strip_suffix(']'));
    Some(named.filter(|_| !last.contains(' ')).unwrap_or("tool_failed").to_owned())
}

/// No text anywhere hides, reorders or moves what a person sees, and the secret is in none.
fn harmless(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => {
            let bad = text.chars().find(|c| {
                (c.is_control() && !matches!(c, '\n' | '\t'))
                    || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{e0000}'..='\u{e007f}')
            });
            match bad {
                Some(bad) => Err(format!("{bad:?} in {:?}", text.chars().take(200).collect::<String>())),
                None if text.contains(CANARY) => Err("the secret is in it".to_owned()),
                None => Ok(()),
            }
        }
        Value::Array(items) => items.iter().try_for_each(harmless),
        Value::Object(members) => {
            members.keys().try_for_each(|key| harmless(&Value::String(key.clone())))?;
            members.values().try_for_each(harmless)
        }
        _ => Ok(()),
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(2000).collect()
}

/// A line of a process's status, in KiB.
fn memory(pid: u32, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let found = status.lines().find_map(|other| other.strip_prefix(line)).unwrap();
    found.split_whitespace().next().unwrap().parse().unwrap()
}
