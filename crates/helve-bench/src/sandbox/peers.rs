//! Other programs that confine a command, in the same turns.

use std::process::{Command, Stdio};

use super::Measured;
use super::calls::{PROBE, Place, spawned};
use super::turns::{Contender, Proof};

/// bubblewrap with the flags that nanobot's manual gives for its `commandWrapper`, and more.
pub(crate) fn bwrap<'a>(
    place: &'a Place,
    name: &'static str,
    more: &'static [&'static str],
) -> Contender<'a> {
    let call = move |token: &str| {
        let workspace = place.workspace();
        let mut command = Command::new("bwrap");
        command.args(["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/bin", "/bin"]);
        command.args(["--ro-bind-try", "/lib", "/lib", "--ro-bind-try", "/lib64", "/lib64"]);
        command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind"]);
        command.args([&workspace, &workspace]).arg("--chdir").arg(&workspace).args(more);
        command.args(["--", "sh", "-c", &PROBE.replace("@TOKEN@", token)]);
        spawned(command.current_dir(&workspace).env_clear().envs(Place::variables()))
    };
    // Without a process namespace of its own the number is always the same.
    let proof = if more.is_empty() { Proof::Token } else { Proof::Fresh };
    Contender { name, proof, call: Box::new(call) }
}

/// Those that are installed and work.
pub(crate) fn installed(place: &Place) -> Measured<Vec<Contender<'_>>> {
    let mut all = vec![
        around(place, "codex sandbox", &["codex", "sandbox", "linux", "--"]),
        around(place, "sandbox-runtime", &["srt", "--"]),
        around(place, "firejail --noprofile", &["firejail", "--quiet", "--noprofile", "--private-cwd", "--"]),
        around(place, "nsjail", &["nsjail", "-Mo", "-q", "--chroot", "/", "--"]),
    ];
    all.extend(docker(place)?);
    all.retain_mut(|contender| (contender.call)("trial").is_ok());
    Ok(all)
}

/// A program that takes a command after its own words.
fn around<'a>(place: &'a Place, name: &'static str, words: &'static [&'static str]) -> Contender<'a> {
    let call = move |token: &str| {
        let Some((program, words)) = words.split_first() else { return Err("no program".into()) };
        let mut command = Command::new(program);
        command.args(words).args(["sh", "-c", &PROBE.replace("@TOKEN@", token)]);
        spawned(command.current_dir(place.workspace()).envs(Place::variables()))
    };
    Contender { name, proof: Proof::Token, call: Box::new(call) }
}

/// A container that runs already, where docker works and has an image with a shell.
fn docker(place: &Place) -> Measured<Option<Contender<'_>>> {
    let quiet = |args: &[&str]| {
        let output = Command::new("docker").args(args).stdin(Stdio::null()).stderr(Stdio::null()).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
    };
    let Some(image) = quiet(&["images", "-q"]).filter(|image| !image.is_empty()) else { return Ok(None) };
    let started = quiet(&["run", "-d", "--rm", "--network", "none", "--entrypoint", "sleep", &image, "600"]);
    let Some(container) = started else { return Ok(None) };
    let container = Container(container);
    let call = move |token: &str| {
        let mut command = Command::new("docker");
        command.arg("exec");
        for (name, value) in Place::variables() {
            command.args(["-e", &format!("{name}={value}")]);
        }
        command.args([&container.0, "sh", "-c", &PROBE.replace("@TOKEN@", token)]);
        spawned(command.current_dir(place.workspace()))
    };
    Ok(Some(Contender { name: "docker exec", proof: Proof::Token, call: Box::new(call) }))
}

/// Removed when the measurement is over.
struct Container(String);

impl Drop for Container {
    fn drop(&mut self) {
        let mut remove = Command::new("docker");
        drop(remove.args(["rm", "-f", &self.0]).stdin(Stdio::null()).output());
    }
}
