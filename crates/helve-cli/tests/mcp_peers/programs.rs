//! The programs that `scripts/mcp-peers` installed, and how each is started.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::Place;

/// Where everything was installed.
pub(crate) struct Programs(PathBuf);

impl Programs {
    /// None where nothing is; then the test has said so.
    pub(crate) fn installed() -> Option<Programs> {
        match std::env::var_os("HELVE_TEST_MCP_PEERS").filter(|dir| !dir.is_empty()) {
            Some(dir) => Some(Programs(PathBuf::from(dir).canonicalize().unwrap())),
            None => {
                println!("skipped what needs MCP programs of others: scripts/mcp-peers installs them");
                None
            }
        }
    }

    fn path(&self, relative: &str) -> String {
        let path = self.0.join(relative);
        assert!(path.exists(), "{} is not installed: run scripts/mcp-peers", path.display());
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn conformance(&self) -> Command {
        let mut command = Command::new(self.path("bin/node"));
        command.arg(self.path("conformance/node_modules/.bin/conformance")).stdin(Stdio::null());
        command
    }

    /// The Inspector's command line, with this place as its home.
    pub(crate) fn inspector(&self, place: &Place) -> Command {
        let mut command = Command::new(self.path("bin/node"));
        command
            .arg(self.path("inspector/node_modules/.bin/mcp-inspector"))
            .args(["--cli", "--quiet", "--format", "json", "--connect-timeout", "60000"])
            .env("HOME", place.root().join("user"))
            .current_dir(place.workspace())
            .stdin(Stdio::null());
        command
    }

    /// The six servers.
    pub(crate) fn servers(&self, place: &Place) -> Vec<Server> {
        let workspace = place.workspace().to_str().unwrap().to_owned();
        let script = |name: &str| {
            vec![self.path("bin/node"), self.path(&format!("servers/node_modules/.bin/mcp-server-{name}"))]
        };
        let memory = format!("{workspace}/memory.jsonl");
        let base = self.python_outside_the_system();
        let python = |name: &'static str, more: &[&str]| {
            let program = self.path(&format!("python/bin/mcp-server-{name}"));
            self.server(name, [vec![program], words(more)].concat()).that_reads(base.as_deref())
        };
        vec![
            self.server("everything", [script("everything"), words(&["stdio"])].concat()),
            self.server("filesystem", [script("filesystem"), vec![workspace]].concat()).that_writes(),
            self.server("memory", script("memory")).that_writes().with_variable("MEMORY_FILE_PATH", &memory),
            python("git", &[]),
            python("time", &[]),
            python("fetch", &["--allow-private-ips"]).with_network(),
        ]
    }

    fn server(&self, name: &'static str, command: Vec<String>) -> Server {
        let server = Server { name, command, options: Vec::new(), variables: Vec::new() };
        server.that_reads(self.0.to_str())
    }

    /// Where the interpreter of the servers in Python really is, if that is no directory of the system.
    fn python_outside_the_system(&self) -> Option<String> {
        let code = "import sys; print(sys.base_prefix)";
        let output = Command::new(self.path("python/bin/python")).args(["-c", code]).output().unwrap();
        let base = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        (!Path::new(&base).starts_with("/usr")).then_some(base)
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A server of somebody else's.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    command: Vec<String>,
    /// What the owner opens for it.
    options: Vec<String>,
    variables: Vec<String>,
}

impl Server {
    fn that_reads(mut self, dir: Option<&str>) -> Self {
        self.options.extend(dir.into_iter().flat_map(|dir| words(&["--read", dir])));
        self
    }

    fn that_writes(mut self) -> Self {
        self.options.extend(words(&["--workspace-use", "write"]));
        self
    }

    fn with_network(mut self) -> Self {
        self.options.push("--network".to_owned());
        self
    }

    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push(format!("{name}={value}"));
        self
    }

    /// Under which it is called: the owner agrees to everything, and tells the one that asks where the workspace is.
    pub(crate) fn settings(&self) -> &'static [&'static str] {
        match self.name {
            "everything" => &["auto_approve=true", "mcp.servers.everything.may_read_roots=true"],
            _ => &["auto_approve=true"],
        }
    }

    /// Makes it a server of Helve's.
    pub(crate) fn add(&self, place: &Place) {
        let mut command = place.helve();
        command.args(["mcp", "add", self.name, "--yes"]).args(&self.options);
        for variable in &self.variables {
            command.args(["--env", variable]);
        }
        let output = command.arg("--").args(&self.command).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// What the Inspector gets from it, started anew and without a sandbox.
    pub(crate) fn inspected(&self, programs: &Programs, place: &Place, request: &[&str]) -> Value {
        let mut command = programs.inspector(place);
        command.args(["--protocol-era", "auto"]);
        for variable in &self.variables {
            command.args(["-e", variable]);
        }
        result(command.args(request).arg("--").args(&self.command))
    }
}

/// The result that the Inspector prints; an error of it is a failure of the test.
pub(crate) fn result(inspector: &mut Command) -> Value {
    let output = inspector.output().unwrap();
    let printed = serde_json::from_slice::<Value>(&output.stdout);
    match printed {
        Ok(mut printed) if printed["result"].is_object() => printed["result"].take(),
        _ => panic!("the Inspector has no result: {output:?}"),
    }
}

/// A result in a form that can be compared: numbers by their value, and the named members left out, also where a text is JSON.
pub(crate) fn comparable(value: &Value, left_out: &[&str]) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(name, _)| !left_out.contains(&name.as_str()));
            members.map(|(name, value)| (name.clone(), comparable(value, left_out))).collect()
        }
        Value::Array(items) => items.iter().map(|item| comparable(item, left_out)).collect(),
        Value::Number(number) => json!(number.as_f64()),
        Value::String(text) if !left_out.is_empty() => {
            let inside = serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
            inside.map_or_else(|| value.clone(), |inside| comparable(&inside, left_out))
        }
        other => other.clone(),
    }
}
