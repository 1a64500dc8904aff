//! Paths that mean more than a file: devices, start files, credentials. One table each, read by redirections and by
//! what programs do alike.

/// `/dev/tcp/HOST/PORT` and its like, which bash opens as a connection.
pub(super) fn network(path: &str) -> Option<String> {
    let rest = path.strip_prefix("/dev/tcp/").or_else(|| path.strip_prefix("/dev/udp/"))?;
    let (host, port) = rest.split_once('/')?;
    Some(format!("{host}:{port}"))
}

/// The streams that a command has anyway. What lies behind one of them, such as `/dev/fd/3/x` or `/dev/fd/../cwd/x`,
/// is a file like any other.
pub(super) fn is_standard_stream(path: &str) -> bool {
    path == "/dev/tty" || stream(path).is_some()
}

/// The number of the descriptor that a path names.
pub(super) fn stream(path: &str) -> Option<u32> {
    match path {
        "/dev/stdin" => return Some(0),
        "/dev/stdout" => return Some(1),
        "/dev/stderr" => return Some(2),
        _ => {}
    }
    let number = path.strip_prefix("/dev/fd/").or_else(|| path.strip_prefix("/proc/self/fd/"))?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())?
}

/// Devices that writing to and reading from does nothing.
pub(super) fn is_harmless_device(path: &str) -> bool {
    matches!(path, "/dev/null" | "/dev/zero" | "/dev/full" | "/dev/random" | "/dev/urandom")
}

/// Disks, memory and what maps to them.
pub(super) fn is_raw_device(path: &str) -> bool {
    const WITH_LETTER: [&str; 4] = ["sd", "hd", "vd", "xvd"];
    const WITH_DIGIT: [&str; 12] =
        ["fd", "nvme", "mmcblk", "loop", "md", "ram", "zram", "nbd", "disk", "rdisk", "sr", "st"];
    const DIRECTORIES: [&str; 4] = ["disk/", "mapper/", "md/", "block/"];
    let Some(name) = path.strip_prefix("/dev/") else { return false };
    let starts = |prefixes: &[&str], next: fn(u8) -> bool| {
        prefixes
            .iter()
            .any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| rest.bytes().next().is_some_and(next)))
    };
    let active = |byte: u8| matches!(byte, b'*' | b'?' | b'[');
    matches!(name, "mem" | "kmem" | "port")
        || name.starts_with("dm-")
        || DIRECTORIES.iter().any(|directory| name.starts_with(directory))
        || starts(&WITH_LETTER, |byte| byte.is_ascii_lowercase() || matches!(byte, b'*' | b'?' | b'['))
        || starts(&WITH_DIGIT, |byte| byte.is_ascii_digit() || matches!(byte, b'*' | b'?' | b'['))
        || name.bytes().next().is_some_and(active)
        || name.strip_prefix('s').is_some_and(|rest| rest.bytes().next().is_some_and(active))
}

/// Writing a letter or a word here stops the machine.
pub(super) fn is_power_switch(path: &str) -> bool {
    matches!(path, "/proc/sysrq-trigger" | "/proc/acpi/sleep" | "/sys/power/state")
}

/// Whether what is written there runs later by itself.
pub(super) fn starts_by_itself(path: &str) -> bool {
    const NAMES: [&str; 20] = [
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_logout",
        ".bash_aliases",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".zprofile",
        ".zlogin",
        ".zlogout",
        ".kshrc",
        ".cshrc",
        ".tcshrc",
        ".xinitrc",
        ".xprofile",
        ".xsession",
        ".xsessionrc",
        ".gitconfig",
        ".pam_environment",
    ];
    const ENDS: [&str; 9] = [
        "/.git/config",
        "/.config/git/config",
        "/.config/fish/config.fish",
        "/.ssh/authorized_keys",
        "/.ssh/authorized_keys2",
        "/.ssh/config",
        "/.ssh/rc",
        "/.ssh/environment",
        "/.hg/hgrc",
    ];
    const INSIDE: [&str; 11] = [
        "/.git/hooks/",
        "/.config/fish/conf.d/",
        "/.config/autostart/",
        "/.config/systemd/user/",
        "/systemd/system/",
        "/systemd/user/",
        "/etc/profile.d/",
        "/etc/xdg/autostart/",
        "/Library/LaunchAgents/",
        "/Library/LaunchDaemons/",
        "/.config/environment.d/",
    ];
    const SYSTEM: [&str; 14] = [
        "/etc/profile",
        "/etc/bash",
        "/etc/zsh",
        "/etc/environment",
        "/etc/rc.local",
        "/etc/init.d/",
        "/etc/inittab",
        "/etc/cron",
        "/var/spool/cron",
        "/var/spool/at",
        "/etc/ld.so.preload",
        "/etc/sudoers",
        "/etc/pam.d/",
        "/etc/udev/rules.d/",
    ];
    NAMES.contains(&last(path))
        || ENDS.iter().any(|end| path.ends_with(end))
        || INSIDE.iter().any(|directory| path.contains(directory))
        || SYSTEM.iter().any(|start| path.starts_with(start))
}

/// Whether what is there usually holds credentials.
pub(super) fn holds_credentials(path: &str) -> bool {
    const NAMES: [&str; 14] = [
        ".netrc",
        "_netrc",
        ".npmrc",
        ".pypirc",
        ".pgpass",
        ".my.cnf",
        ".git-credentials",
        ".vault-token",
        ".htpasswd",
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "wallet.dat",
    ];
    const ENDS: [&str; 12] = [
        "/.aws/credentials",
        "/.docker/config.json",
        "/.kube/config",
        "/.config/gh/hosts.yml",
        "/.cargo/credentials",
        "/.cargo/credentials.toml",
        "/.gem/credentials",
        "/.terraform.d/credentials.tfrc.json",
        "/.azure/accessTokens.json",
        ".pem",
        ".p12",
        ".pfx",
    ];
    const INSIDE: [&str; 4] = ["/.gnupg/", "/.password-store/", "/.config/gcloud/", "/.azure/"];
    let name = last(path);
    let private_key = path.contains("/.ssh/")
        && !matches!(name, "config" | "known_hosts" | "authorized_keys")
        && !name.ends_with(".pub");
    let settings = (name == ".env" || name.starts_with(".env."))
        && ![".example", ".sample", ".template", ".dist"].iter().any(|end| name.ends_with(end));
    let environment = path.starts_with("/proc/") && name == "environ";
    NAMES.contains(&name)
        || private_key
        || settings
        || environment
        || matches!(path, "/etc/shadow" | "/etc/gshadow" | "/etc/shadow-" | "/etc/master.passwd")
        || ENDS.iter().any(|end| path.ends_with(end))
        || INSIDE.iter().any(|directory| path.contains(directory))
}

/// Whether programs in this place belong to the system, so that a name is all that needs to be known of them.
pub(super) fn is_system_program(path: &str) -> bool {
    const DIRECTORIES: [&str; 8] =
        ["/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/opt/", "/snap/bin/", "/nix/store/"];
    DIRECTORIES.iter().any(|directory| path.starts_with(directory))
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_apart() {
        for path in [
            "/dev/sda",
            "/dev/sdb1",
            "/dev/nvme0n1",
            "/dev/vda",
            "/dev/mapper/x",
            "/dev/disk/by-id/x",
            "/dev/mem",
            "/dev/sd*",
        ] {
            assert!(is_raw_device(path), "{path}");
        }
        for path in ["/dev/null", "/dev/shm/x", "/dev/stdout", "/dev/pts/0", "/dev/ttyS0", "sda", "/dev/std"]
        {
            assert!(!is_raw_device(path), "{path}");
        }
    }

    #[test]
    fn streams_have_a_number_and_nothing_behind_it() {
        for (path, number) in [
            ("/dev/stdin", Some(0)),
            ("/dev/fd/1", Some(1)),
            ("/proc/self/fd/12", Some(12)),
            ("/dev/tty", None),
            ("/dev/fd/", None),
            ("/dev/fd/3/x", None),
            ("/dev/fd/+3", None),
            ("/dev/fd/../cwd/x", None),
            ("/proc/self/fd/../cwd/x", None),
        ] {
            assert_eq!(stream(path), number, "{path}");
        }
        assert!(is_standard_stream("/dev/tty"));
    }

    #[test]
    fn start_files_and_credentials_are_known() {
        for path in [
            "/h/.bashrc",
            "/w/.git/hooks/x",
            "/w/.git/config",
            "/etc/cron.d/x",
            "/h/.config/autostart/x",
            "/h/.ssh/authorized_keys",
        ] {
            assert!(starts_by_itself(path), "{path}");
        }
        for path in ["/w/bashrc", "/w/.gitignore", "/w/git/config", "/w/src/profile.rs"] {
            assert!(!starts_by_itself(path), "{path}");
        }
        for path in [
            "/h/.ssh/id_ed25519",
            "/h/.aws/credentials",
            "/w/.env",
            "/w/.env.local",
            "/x/key.pem",
            "/etc/shadow",
            "/proc/7/environ",
        ] {
            assert!(holds_credentials(path), "{path}");
        }
        for path in ["/h/.ssh/known_hosts", "/h/.ssh/id_rsa.pub", "/w/.env.example", "/w/env", "/etc/passwd"]
        {
            assert!(!holds_credentials(path), "{path}");
        }
    }
}
