//! The programs that can be given Helve's tools: where each keeps its configuration, and in which form.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Whose configuration is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The person's, for every project.
    User,
    /// The project's, which lies in its directory.
    Project,
}

/// The form of a configuration.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// JSON with the servers under this key.
    Json(&'static str),
    /// TOML with the servers under this key.
    Toml(&'static str),
}

/// One program.
pub(super) struct Client {
    /// What it is called on the command line.
    pub(super) name: &'static str,
    /// What it is called by people.
    pub(super) title: &'static str,
    pub(super) form: Form,
    /// Members that every server has in its configuration.
    members: &'static [(&'static str, &'static str)],
    /// The file of a project, below its directory; none where there is none.
    project: Option<&'static str>,
    /// The scope that is meant when none is named.
    pub(super) usual: Scope,
    /// What it puts in for the directory of the project, or that it starts servers there.
    place: Place,
}

/// How a server of a program learns where the project is.
enum Place {
    /// It is started there.
    StartsThere,
    /// In the project's own file this stands for it; in the user's nothing does.
    Variable(&'static str),
    /// Not at all.
    Nowhere,
}

pub(super) const CLIENTS: [Client; 8] = [
    Client {
        name: "claude",
        title: "Claude Code",
        form: Form::Json("mcpServers"),
        members: &[("type", "stdio")],
        project: Some(".mcp.json"),
        usual: Scope::User,
        place: Place::StartsThere,
    },
    Client {
        name: "codex",
        title: "Codex",
        form: Form::Toml("mcp_servers"),
        members: &[],
        project: Some(".codex/config.toml"),
        usual: Scope::User,
        place: Place::StartsThere,
    },
    Client {
        name: "cursor",
        title: "Cursor",
        form: Form::Json("mcpServers"),
        members: &[("type", "stdio")],
        project: Some(".cursor/mcp.json"),
        usual: Scope::Project,
        place: Place::Variable("${workspaceFolder}"),
    },
    Client {
        name: "vscode",
        title: "VS Code",
        form: Form::Json("servers"),
        members: &[("type", "stdio")],
        project: Some(".vscode/mcp.json"),
        usual: Scope::Project,
        place: Place::Variable("${workspaceFolder}"),
    },
    Client {
        name: "gemini",
        title: "Gemini CLI",
        form: Form::Json("mcpServers"),
        members: &[],
        project: Some(".gemini/settings.json"),
        usual: Scope::User,
        place: Place::StartsThere,
    },
    Client {
        name: "windsurf",
        title: "Windsurf",
        form: Form::Json("mcpServers"),
        members: &[],
        project: None,
        usual: Scope::User,
        place: Place::Nowhere,
    },
    Client {
        name: "zed",
        title: "Zed",
        form: Form::Json("context_servers"),
        members: &[("source", "custom")],
        project: Some(".zed/settings.json"),
        usual: Scope::User,
        place: Place::StartsThere,
    },
    Client {
        name: "claude-desktop",
        title: "Claude Desktop",
        form: Form::Json("mcpServers"),
        members: &[],
        project: None,
        usual: Scope::User,
        place: Place::Nowhere,
    },
];

impl Client {
    /// Where its configuration is; none where it has none of that scope, or there is no home directory.
    pub(super) fn file(
        &self,
        scope: Scope,
        project: &Path,
        variable: impl Fn(&str) -> Option<PathBuf>,
    ) -> Option<PathBuf> {
        if scope == Scope::Project {
            return self.project.map(|file| project.join(file));
        }
        let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
        let home = absolute("HOME");
        let config = || absolute("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
        let below_home = |file: &str| Some(home.as_ref()?.join(file));
        match self.name {
            "claude" => match absolute("CLAUDE_CONFIG_DIR") {
                Some(dir) => Some(dir.join(".claude.json")),
                None => below_home(".claude.json"),
            },
            "codex" => match absolute("CODEX_HOME") {
                Some(dir) => Some(dir.join("config.toml")),
                None => below_home(".codex/config.toml"),
            },
            "cursor" => below_home(".cursor/mcp.json"),
            "vscode" => Some(config()?.join("Code/User/mcp.json")),
            "gemini" => below_home(".gemini/settings.json"),
            "windsurf" => below_home(".codeium/windsurf/mcp_config.json"),
            "zed" => Some(config()?.join("zed/settings.json")),
            _ => Some(config()?.join("Claude/claude_desktop_config.json")),
        }
    }

    /// The argument of `--workspace` that a server needs to know the project; none where it is started there.
    pub(super) fn workspace(&self, scope: Scope, project: &Path) -> Option<String> {
        match (&self.place, scope) {
            (Place::StartsThere, _) => None,
            (Place::Variable(variable), Scope::Project) => Some((*variable).to_owned()),
            (Place::Variable(_), Scope::User) | (Place::Nowhere, _) => Some(project.display().to_string()),
        }
    }

    /// A server as it stands in the configuration.
    pub(super) fn entry(&self, command: &str, args: &[String], env: &[(String, String)]) -> Value {
        let mut entry = json!({"command": command, "args": args});
        for (key, value) in self.members {
            entry[*key] = (*value).into();
        }
        if !env.is_empty() {
            entry["env"] =
                env.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
        }
        entry
    }
}
