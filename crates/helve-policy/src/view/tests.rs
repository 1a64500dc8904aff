use pretty_assertions::assert_eq;

use super::*;
use crate::config::layers::Sources;
use crate::policy::Policy;

struct House {
    _directory: tempfile::TempDir,
    home: PathBuf,
    workspace: PathBuf,
}

/// A home directory with toolchains, credentials and a workspace.
fn house() -> House {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().canonicalize().unwrap();
    for path in [
        ".cargo/bin",
        ".cargo/registry",
        ".cargo/git/db",
        ".rustup/toolchains",
        ".nvm/versions/node/v1/bin",
        ".pyenv/shims",
        ".local/bin",
        ".local/share/uv/tools",
        ".local/share/uv/credentials",
        "project/bin",
        "data",
    ] {
        std::fs::create_dir_all(home.join(path)).unwrap();
    }
    House { workspace: home.join("project"), home, _directory: directory }
}

fn around(house: &House, more: &[(&str, &str)]) -> Surroundings {
    let home = house.home.display();
    let mut variables = BTreeMap::from([
        ("HOME".to_owned(), home.to_string()),
        ("USER".to_owned(), "alice".to_owned()),
        ("API_KEY".to_owned(), "canary".to_owned()),
        ("LC_ALL".to_owned(), "C".to_owned()),
        (
            "PATH".to_owned(),
            format!("{home}/project/bin:{home}/.nvm/versions/node/v1/bin:relative:{home}/elsewhere:/usr/bin"),
        ),
    ]);
    variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    Surroundings { variables }
}

fn view(house: &House, set: &[&str], more: &[(&str, &str)]) -> View {
    let sources = Sources {
        user: Some(house.home.join(".config/helve/helve.toml")),
        set: set.iter().map(|text| (*text).to_owned()).collect(),
        ..Sources::default()
    };
    let policy = Policy::load_around(&sources, around(house, more)).unwrap();
    policy.view(&house.workspace, &house.home.join("state"))
}

#[test]
fn toolchains_are_shown_without_credentials() {
    let house = house();
    let view = view(&house, &[], &[]);
    let below_home: Vec<&Path> =
        view.read_only.iter().filter_map(|path| path.strip_prefix(&house.home).ok()).collect();
    let expected = [
        ".cargo/bin",
        ".cargo/registry",
        ".cargo/git/db",
        ".rustup",
        ".nvm",
        ".pyenv",
        ".local/bin",
        ".local/share/uv/tools",
    ]
    .map(Path::new);
    assert_eq!(below_home, expected);
    assert!(view.read_only.contains(&"/usr".into()) && !view.read_only.contains(&"/etc".into()));
    assert_eq!(view.read_write, Vec::<PathBuf>::new());
    assert_eq!(view.workspace, house.workspace);
}

#[test]
fn the_owner_lets_commands_write_a_toolchain_and_what_he_names_read_only_stays_so() {
    let house = house();
    let usual = view(&house, &[], &[]);
    let gone = |set: &[&str]| -> Vec<PathBuf> {
        let seen = view(&house, set, &[]);
        assert_eq!(seen.env["PATH"], usual.env["PATH"], "{set:?}");
        let gone = usual.read_only.iter().filter(|path| !seen.read_only.contains(path));
        gone.map(|path| path.strip_prefix(&house.home).unwrap().to_owned()).collect()
    };
    std::os::unix::fs::symlink(house.home.join(".nvm"), house.home.join("node")).unwrap();
    let [registry, bin, git, nvm] =
        [".cargo/registry", ".cargo/bin", ".cargo/git/db", ".nvm"].map(PathBuf::from);
    assert_eq!(gone(&["view.read_write=['~/.cargo/registry']"]), std::slice::from_ref(&registry));
    assert_eq!(gone(&["view.read_write=['~/.cargo']"]), [bin, registry, git]);
    assert_eq!(gone(&["view.read_write=['~/node']"]), [nvm]);
    assert_eq!(gone(&["view.read_write=['~/.cargo/registry/deeper', '~/data']"]), Vec::<PathBuf>::new());
    let both = ["view.read_write=['~/.cargo/registry']", "view.read_only=['~/.cargo/registry']"];
    assert_eq!(gone(&both), Vec::<PathBuf>::new());
}

#[test]
fn the_environment_is_an_allow_list() {
    let house = house();
    let view = view(
        &house,
        &[],
        &[
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("TZ", "UTC"),
            ("LD_PRELOAD", "x.so"),
            ("LC_SECRET", "canary"),
            ("LC_TIME", "C"),
        ],
    );
    let names: Vec<&str> = view.env.keys().map(String::as_str).collect();
    let expected = [
        "CARGO_HOME",
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_TIME",
        "NVM_DIR",
        "PATH",
        "PYENV_ROOT",
        "RUSTUP_HOME",
        "SHELL",
        "TERM",
        "TZ",
        "USER",
    ];
    assert_eq!(names, expected);
    assert_eq!(view.env["HOME"], PRIVATE_HOME);
    assert_eq!(view.env["TERM"], "dumb");
    assert_eq!(view.env["RUSTUP_HOME"], house.home.join(".rustup").display().to_string());
}

#[test]
fn cargo_finds_what_it_downloaded_and_only_that() {
    let house = house();
    let seen = view(&house, &[], &[]);
    assert_eq!(seen.env["CARGO_HOME"], house.home.join(".cargo").display().to_string());
    assert!(!seen.read_only.contains(&house.home.join(".cargo")));
    // Without a registry it may make its own in the private home.
    std::fs::remove_dir(house.home.join(".cargo/registry")).unwrap();
    assert_eq!(view(&house, &[], &[]).env.get("CARGO_HOME"), None);
}

#[test]
fn a_toolchain_in_the_workspace_stays_writable_and_off_the_search_path() {
    let house = house();
    let own = house.workspace.join(".cargo-home");
    for part in ["bin", "registry"] {
        std::fs::create_dir_all(own.join(part)).unwrap();
    }
    let text = own.display().to_string();
    let seen = view(&house, &[], &[("CARGO_HOME", &text)]);
    assert_eq!(seen.env["CARGO_HOME"], text);
    assert!(!seen.read_only.iter().any(|path| path.starts_with(&own)), "{:?}", seen.read_only);
    assert!(!seen.env["PATH"].contains(&text), "{}", seen.env["PATH"]);
}

#[test]
fn the_owner_adds_variables() {
    let house = house();
    let set = ["tools.exec.env_pass=['API_KEY','UNSET']", "tools.exec.env.CI=1", "tools.exec.env.TERM=xterm"];
    let view = view(&house, &set, &[]);
    assert_eq!(view.env["API_KEY"], "canary");
    assert_eq!(view.env["CI"], "1");
    assert_eq!(view.env["TERM"], "xterm");
    assert!(!view.env.contains_key("UNSET"));
}

#[test]
fn the_search_path_leads_to_visible_places_only() {
    let house = house();
    let view = view(&house, &["tools.exec.path_append=/opt/tools/bin::/opt/more"], &[]);
    let home = house.home.display();
    let expected = format!(
        "{home}/.nvm/versions/node/v1/bin:/usr/bin:{home}/.cargo/bin:{home}/.pyenv/shims:{home}/.local/bin:\
         /usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin:/opt/tools/bin:/opt/more"
    );
    assert_eq!(view.env["PATH"], expected);
}

#[test]
fn programs_of_the_workspace_are_not_on_the_search_path() {
    let house = house();
    let planted = house.workspace.join("bin").display().to_string();
    let seen = view(&house, &["view.read_only=['~']"], &[]);
    assert!(seen.read_only.contains(&house.home));
    assert!(!seen.env["PATH"].contains(&planted), "{}", seen.env["PATH"]);
}

#[test]
fn a_bare_command_has_the_real_home() {
    let house = house();
    for set in ["sandbox=none", "tools.exec.command_wrapper=firejail -- {command}"] {
        assert_eq!(view(&house, &[set], &[]).env["HOME"], house.home.display().to_string());
    }
}

#[test]
fn state_configuration_and_secret_files_are_hidden() {
    let house = house();
    let view = view(&house, &["view.hidden=['~/data/private']", "secrets=[{file='~/token'}]"], &[]);
    let expected =
        ["data/private", ".config/helve/helve.toml", "token", "state"].map(|path| house.home.join(path));
    assert_eq!(view.hidden, expected);
}

#[test]
fn protected_names_are_the_common_list_unless_the_owner_says_otherwise() {
    let house = house();
    assert_eq!(view(&house, &[], &[]).protected, helve_core::protected::NAMES);
    assert_eq!(view(&house, &["view.protected=['.git', 'secret.mk']"], &[]).protected, [".git", "secret.mk"]);
    assert!(view(&house, &["view.protected=[]"], &[]).protected.is_empty());
}

#[test]
fn paths_of_the_owner_are_shown_where_they_exist() {
    let house = house();
    let view = view(&house, &["view.read_write=['~/data','~/absent']", "view.read_only=['~/absent']"], &[]);
    assert_eq!(view.read_write, [house.home.join("data")]);
    assert!(!view.read_only.contains(&house.home.join("absent")));
}

#[test]
fn a_toolchain_variable_cannot_show_the_whole_home() {
    let house = house();
    let above = house.home.parent().unwrap().display().to_string();
    for base in ["/", &house.home.display().to_string(), &above] {
        let view = view(&house, &[], &[("RUSTUP_HOME", base)]);
        assert!(!view.read_only.contains(&base.into()), "{base}");
        assert!(view.read_only.contains(&house.home.join(".rustup")));
    }
}

#[test]
fn the_network_is_off_unless_opened() {
    let house = house();
    assert_eq!(view(&house, &[], &[]).network, Network::Off);
    assert_eq!(view(&house, &["tools.exec.network=true"], &[]).network, Network::Host);
}

/// A sandboxed command must not change what the owner is asked to trust.
#[test]
fn the_workspaces_own_file_is_read_only() {
    let house = house();
    let own = house.workspace.join("helve.toml");
    let shown = || view(&house, &[], &[]).read_only.contains(&own);
    assert!(!shown());
    // A link would show what it leads to.
    std::os::unix::fs::symlink(house.home.join(".cargo/registry"), &own).unwrap();
    assert!(!shown());
    std::fs::remove_file(&own).unwrap();
    std::fs::write(&own, "").unwrap();
    assert!(shown());
}
