//! A workspace with what the acts of the tables are about, what lies around it, and who listens there.

#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use serde::Deserialize;

use crate::support::{Answer, Place};

/// The table of acts that are refused.
pub(crate) const ACTS: &str = include_str!("acts.jsonl");

/// One row of a table.
#[derive(Clone, Deserialize)]
pub(crate) struct Row {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) settings: Vec<String>,
    pub(crate) command: String,
    #[serde(default)]
    pub(crate) rare: bool,
    /// Whether what others do to this machine's disk counts too, so that it is tried again.
    #[serde(default)]
    pub(crate) shared: bool,
    #[serde(default)]
    pub(crate) act: String,
    #[serde(default)]
    pub(crate) subject: String,
    #[serde(default)]
    pub(crate) rule: String,
    pub(crate) grant: Option<String>,
}

/// The rows of a table, with the places of a scene.
pub(crate) fn rows(text: &str, scene: &Scene) -> Vec<Row> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_str(&scene.fill(line)).unwrap()).collect()
}

/// A workspace with what the acts are about, and who listens.
pub(crate) struct Scene {
    pub(crate) place: Place,
    /// The machine's own address, if it has one that others could reach.
    pub(crate) address: Option<IpAddr>,
    port: u16,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let place = Place::new();
        let (ws, out, user) = (place.workspace(), place.outside(), place.root().join("user"));
        for dir in [
            ws.join("private"),
            ws.join("fixed"),
            ws.join("deep/.ssh"),
            ws.join(".git/hooks"),
            ws.join(".git/objects"),
            ws.join(".git/refs"),
            ws.join(".vscode"),
            out.join("dir"),
            user.join(".ssh"),
        ] {
            fs::create_dir_all(dir).unwrap();
        }
        for file in [
            "private/note",
            "fixed/note",
            "deep/.ssh/config",
            "deep/.ssh/known_hosts",
            ".git/hooks/pre-commit",
            ".vscode/settings.json",
            ".env",
            "words.txt",
            "plain.txt",
        ] {
            place.put(file, "Permission denied\n");
        }
        place.put("helve.toml", "");
        place.put(".git/HEAD", "ref: refs/heads/main\n");
        place.put("act.py", include_str!("act.py"));
        for file in ["secret.txt", "second.txt", "dir/file"] {
            fs::write(out.join(file), "x\n").unwrap();
        }
        fs::write(user.join(".ssh/id_ed25519"), "key\n").unwrap();
        fs::write(out.join("tool"), "#!/bin/sh\nexit 0\n").unwrap();
        fs::set_permissions(out.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
        place.configure("# nothing\n");

        let socket = UnixListener::bind(out.join("s.sock")).unwrap();
        std::thread::spawn(move || socket.incoming().for_each(drop));
        // The address that this machine would speak from; nothing is sent to find it.
        let probe = UdpSocket::bind("0.0.0.0:0").unwrap();
        let own = probe.connect("192.0.2.1:9").and_then(|()| probe.local_addr()).map(|own| own.ip());
        let own = own.ok().filter(|own| !own.is_unspecified() && !own.is_loopback());
        let listener = own.and_then(|own| TcpListener::bind((own, 0)).ok());
        let port = listener.as_ref().map_or(9, |listener| listener.local_addr().unwrap().port());
        let address = own.filter(|_| listener.is_some());
        if let Some(listener) = listener {
            std::thread::spawn(move || listener.incoming().for_each(drop));
        }
        Scene { place, address, port }
    }

    pub(crate) fn fill(&self, text: &str) -> String {
        let shown = |path: &Path| path.to_str().unwrap().to_owned();
        let address = self.address.map_or("192.0.2.1".to_owned(), |address| address.to_string());
        text.replace("{ws}", &shown(&self.place.workspace()))
            .replace("{out}", &shown(&self.place.outside()))
            .replace("{user}", &shown(&self.place.root().join("user")))
            .replace("{config}", &shown(&self.place.root().join("config")))
            .replace("{state}", &shown(&self.place.home()))
            .replace("{address}", &address)
            .replace("{port}", &self.port.to_string())
    }

    /// Runs a row's command with more settings.
    pub(crate) fn run(&self, row: &Row, more: &[String]) -> Answer {
        // The guard would refuse some of them by their text already.
        let mut settings = vec!["tools.exec.deny_patterns=[]".to_owned(), "auto_approve=true".to_owned()];
        if !row.rare {
            settings.push("tools.exec.explain=full".to_owned());
        }
        settings.extend(row.settings.iter().chain(more).cloned());
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        self.place.exec_with(&row.command, &settings)
    }
}
