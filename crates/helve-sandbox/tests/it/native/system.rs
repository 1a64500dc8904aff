//! Places of the system that the owner lets commands write.

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;

use super::*;

/// A place below `/usr` and a file of `/etc`, both of a moment.
const PLACES: [&str; 2] = ["/usr/local/d", "/etc/hostname"];

#[test]
fn what_roots_commands_write_in_places_of_the_system_is_roots() {
    if !rustix::process::geteuid().is_root() || !native_works() {
        println!("skipped: only root mounts file systems");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "set -e; mount -t tmpfs -o mode=755 none /usr/local; mkdir /usr/local/d; echo old > /usr/local/name; \
                  mount --bind /usr/local/name /etc/hostname; \
                  exec \"$1\" --exact native::system::role_writes_system --ignored --nocapture --test-threads=1";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--", "sh", "-c", script, "sh"]).arg(std::env::current_exe().unwrap());
    let output = command.env("ROLE_WORKSPACE", folder.path()).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said} {:?}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "played in a mount namespace of its own by the test above"]
fn role_writes_system() {
    let Some(workspace) = std::env::var_os("ROLE_WORKSPACE") else { return };
    let read_write = PLACES.map(Into::into).to_vec();
    let backend = native(View { read_write, ..view(Path::new(&workspace)) }, PoolSize::NONE);
    // Who may write there is who owns it, also where anybody may.
    for (name, mode) in [("f", 0o755), ("g", 0o777)] {
        std::fs::set_permissions(PLACES[0], std::fs::Permissions::from_mode(mode)).unwrap();
        let text = format!(
            "echo new > {}/{name} && echo {name} > {} && touch /usr/local/other",
            PLACES[0], PLACES[1]
        );
        let (ended, said) = block_on(run(&*backend, job(&text)));
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(ended.map(|ended| ended.exit), Ok(Exit::Code(1)), "{said}");
        assert!(said.contains("/usr/local/other") && !said.contains("Permission"), "{said}");
        let made = std::fs::metadata(Path::new(PLACES[0]).join(name)).unwrap();
        assert_eq!((made.uid(), made.gid()), (0, 0));
        assert_eq!(std::fs::read_to_string(PLACES[1]).unwrap(), format!("{name}\n"));
    }
}
