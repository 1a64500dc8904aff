//! What is asked of the engine for one container, as its own JSON.
//!
//! In: the view as a plan of mounts, the limits, the image, this program's files. Out: a document. No network, a read-only
//! root, no capability, no rise of rights, bounds on memory and processes, and nothing of the engine's that outlives it:
//! the engine removes it when it ends, keeps no log of it and never starts it again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use helve_core::{Network, ProcessLimits, ToolError};
use serde_json::{Value, json};

use super::engine::{Image, unavailable};
use super::own::{Own, PLACE};
use super::owner::LABEL;
use crate::plan::{Mount, Plan};

/// The argument that makes this program the helper, and the one that makes it the helper for files too.
pub(super) const HELPER_WORD: &str = "helve-container-helper";
pub(super) const FILES_HELPER_WORD: &str = "helve-container-files-helper";

/// Where the helper finds the socket to Helve.
pub(super) const LINK: &str = "/.helve/link";

/// What the helper itself takes beside the commands.
const HELPER_BYTES: u64 = 128 << 20;
const HELPER_THREADS: u64 = 32;
/// A bound above this is none.
const NO_BOUND: u64 = 1 << 50;
/// The largest shared memory by name.
const SHM_BYTES: u64 = 64 << 20;

/// What a container is made from.
pub(super) struct Parts<'a> {
    pub(super) image: &'a Image,
    pub(super) plan: &'a Plan,
    pub(super) limits: &'a ProcessLimits,
    pub(super) network: Network,
    pub(super) cpus: Option<u64>,
    /// The home directory of commands, new and empty unless the view shows it.
    pub(super) home: Option<&'a str>,
    /// Number of user and group.
    pub(super) user: (u32, u32),
    pub(super) own: &'a Own,
    pub(super) word: &'a str,
    /// The label of the owner.
    pub(super) owner: String,
    /// The directory with the socket and with what hides others.
    pub(super) scratch: &'a Path,
}

/// What stands in the place of what is hidden, in the directory of a start.
pub(super) const EMPTY_FILE: &str = "empty-file";
pub(super) const EMPTY_DIRECTORY: &str = "empty-directory";
pub(super) const SOCKET: &str = "link";

/// The document.
pub(super) fn spec(parts: &Parts<'_>) -> Result<Value, ToolError> {
    let mut mounts = Vec::new();
    for (place, mount) in parts.plan.mounts() {
        let (source, writes) = match mount {
            Mount::ReadWrite => (place.to_owned(), true),
            Mount::ReadOnly => (place.to_owned(), false),
            // Nothing can be made in a read-only root but mounts.
            Mount::Link(target) => {
                let writes =
                    parts.plan.mounts().any(|(at, mount)| at == target && *mount == Mount::ReadWrite);
                (target.clone(), writes)
            }
            Mount::HiddenDirectory => (parts.scratch.join(EMPTY_DIRECTORY), false),
            Mount::HiddenFile => (parts.scratch.join(EMPTY_FILE), false),
            Mount::Private | Mount::Proc | Mount::Devices | Mount::File(_) | Mount::Copy => continue,
        };
        mounts.push(bind(&source, text(place)?, writes)?);
    }
    for (file, place) in &parts.own.files {
        mounts.push(bind(file, place, false)?);
    }
    mounts.push(bind(&parts.scratch.join(SOCKET), LINK, true)?);
    let limits = parts.limits;
    let bound = |bytes: u64| if bytes < NO_BOUND { bytes } else { 0 };
    let memory = bound(limits.memory_bytes.saturating_add(HELPER_BYTES));
    let private = format!("rw,exec,nosuid,nodev,mode=1777,size={}", bound(limits.tmp_bytes));
    let volumes = parts.image.volumes.iter().map(String::as_str);
    let home = parts.home.filter(|home| home.starts_with('/') && *home != "/");
    let tmpfs: BTreeMap<&str, &str> = ["/tmp", "/var/tmp"]
        .into_iter()
        .chain(volumes.chain(home).filter(|place| !covered(place, parts.plan)))
        .map(|place| (place, private.as_str()))
        .collect();
    let (user, group) = parts.user;
    Ok(json!({
        "Image": parts.image.id,
        "Entrypoint": parts.own.words,
        "Cmd": [parts.word, LINK],
        "User": format!("{user}:{group}"),
        "WorkingDir": "/",
        // What an image sets must not lead this program's loader elsewhere.
        "Env": ["LD_PRELOAD=", "LD_LIBRARY_PATH=", "LD_AUDIT=", "GLIBC_TUNABLES="],
        "Hostname": "container",
        "Labels": {LABEL: parts.owner},
        "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            "NetworkMode": match parts.network { Network::Off => "none", Network::Host => "host" },
            "IpcMode": "private",
            "CgroupnsMode": "private",
            "ReadonlyRootfs": true,
            "Privileged": false,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Memory": memory,
            "MemorySwap": memory,
            "PidsLimit": limits.processes.saturating_add(HELPER_THREADS).min(1 << 22),
            "NanoCpus": parts.cpus.map_or(0, |cpus| cpus.saturating_mul(1_000_000_000)),
            "Tmpfs": tmpfs,
            "ShmSize": limits.tmp_bytes.min(SHM_BYTES),
            "Mounts": mounts,
            "AutoRemove": true,
            "RestartPolicy": {"Name": "no"},
            "LogConfig": {"Type": "none"},
        },
    }))
}

/// A mount of a place outside. Of what is only read, file systems below it are not shown: older engines would let them be
/// written.
fn bind(source: &Path, place: &str, writes: bool) -> Result<Value, ToolError> {
    Ok(json!({
        "Type": "bind",
        "Source": text(source)?,
        "Target": place,
        "ReadOnly": !writes,
        "BindOptions": {"Propagation": "rprivate", "NonRecursive": !writes},
    }))
}

/// Whether a directory that the image wants for itself is a mount of the view, or of Helve's, already.
fn covered(place: &str, plan: &Plan) -> bool {
    place.starts_with(PLACE) || plan.mounts().any(|(mount, _)| Path::new(place).starts_with(mount))
}

fn text(path: &Path) -> Result<&str, ToolError> {
    path.to_str().ok_or_else(|| {
        unavailable(format!("An engine takes no path that is not UTF-8: {}", path.display()))
            .hint("Rename the directory, or use another sandbox.")
    })
}

/// Makes what stands in the place of what is hidden.
pub(super) fn make_empty(scratch: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let (file, folder): (PathBuf, PathBuf) = (scratch.join(EMPTY_FILE), scratch.join(EMPTY_DIRECTORY));
    std::fs::write(&file, b"")?;
    std::fs::create_dir(&folder)?;
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o444))?;
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o555))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use helve_core::{Explain, View};

    use super::*;
    use crate::plan::{self, rules};

    #[test]
    fn a_container_gets_the_view_and_no_right_besides() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["ws", "ws/hidden", "tools"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("tools"), root.join("other")).unwrap();
        let view = View {
            workspace: root.join("ws"),
            read_only: vec![root.join("other")],
            read_write: Vec::new(),
            hidden: vec![root.join("ws/hidden")],
            protected: Vec::new(),
            deny_read: Vec::new(),
            env: BTreeMap::new(),
            network: Network::Off,
            system_calls: Vec::new(),
            explain: Explain::Rare,
            shell: "/bin/sh".into(),
        };
        let limits = ProcessLimits {
            open_files: 64,
            file_bytes: 1 << 20,
            memory_bytes: 1 << 30,
            processes: 64,
            cpu_seconds: 10,
            disk_bytes: 1 << 20,
            tmp_bytes: 1 << 20,
        };
        let volumes = vec!["/data".to_owned(), root.join("ws/x").display().to_string()];
        let image = Image { id: "sha256:1".to_owned(), volumes };
        let own =
            Own { files: vec![("/x/program".into(), "/.helve/program".into())], words: vec!["w".into()] };
        let plan = plan::without_system(&rules::resolve(&view).unwrap()).unwrap();
        let spec = spec(&Parts {
            image: &image,
            plan: &plan,
            limits: &limits,
            network: Network::Off,
            cpus: Some(2),
            home: Some("/home/user"),
            user: (7, 8),
            own: &own,
            word: HELPER_WORD,
            owner: "me".to_owned(),
            scratch: Path::new("/s"),
        })
        .unwrap();
        let host = &spec["HostConfig"];
        let mounts: Vec<String> = host["Mounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|mount| {
                let name = |key: &str| mount[key].as_str().unwrap().replace(root.to_str().unwrap(), "");
                let access = if mount["ReadOnly"] == true { "ro" } else { "rw" };
                assert_eq!(mount["BindOptions"]["NonRecursive"], mount["ReadOnly"]);
                format!("{} {} {access}", name("Source"), name("Target"))
            })
            .collect();
        let expected = [
            "/tools /other ro",
            "/tools /tools ro",
            "/ws /ws rw",
            "/s/empty-directory /ws/hidden ro",
            "/x/program /.helve/program ro",
            "/s/link /.helve/link rw",
        ];
        assert_eq!(mounts, expected);
        assert_eq!((&spec["User"], &spec["Cmd"]), (&json!("7:8"), &json!([HELPER_WORD, LINK])));
        assert_eq!(
            host["Tmpfs"].as_object().unwrap().keys().collect::<Vec<_>>(),
            ["/data", "/home/user", "/tmp", "/var/tmp"]
        );
        let held = [
            "NetworkMode",
            "ReadonlyRootfs",
            "CapDrop",
            "SecurityOpt",
            "Privileged",
            "NanoCpus",
            "PidsLimit",
            "Memory",
            "MemorySwap",
            "IpcMode",
            "AutoRemove",
        ];
        let held: Vec<Value> = held.iter().map(|key| host[key].clone()).collect();
        let memory = (1_u64 << 30) + HELPER_BYTES;
        let wanted = json!([
            "none",
            true,
            ["ALL"],
            ["no-new-privileges"],
            false,
            2_000_000_000_u64,
            96,
            memory,
            memory,
            "private",
            true
        ]);
        assert_eq!(Value::Array(held), wanted);
        assert_eq!(spec["Labels"], json!({LABEL: "me"}));
    }
}
