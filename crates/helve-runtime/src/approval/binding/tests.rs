use super::*;
use helve_shell::analysis::Setting;
use helve_shell::tree::Dialect;
use pretty_assertions::assert_eq;

struct Place {
    _dir: tempfile::TempDir,
    root: PathBuf,
    workspace: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let workspace = root.join("w");
    std::fs::create_dir_all(workspace.join("sub/deep")).unwrap();
    Place { _dir: dir, root, workspace }
}

impl Place {
    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.workspace.join(name), text).unwrap();
    }

    fn analysis(&self, command: &str) -> Analysis {
        let (directory, workspace) = (self.workspace.as_path(), self.workspace.as_path());
        helve_shell::analyze(command, &Setting { dialect: Dialect::Bash, directory, workspace, home: None })
    }

    fn bind(&self, command: &str, run: usize) -> Option<Bound> {
        Binder::new(&self.analysis(command), &self.workspace).bind(run)
    }

    fn files(&self, command: &str, run: usize) -> Option<Vec<String>> {
        self.bind(command, run).map(|bound| bound.scripts.into_iter().map(|script| script.path).collect())
    }
}

#[test]
fn only_regular_files_below_the_workspace_are_read() {
    let place = place();
    std::fs::write(place.root.join("outside"), "x").unwrap();
    place.write("in.sh", "x");
    place.write("large", &"x".repeat(MAX_BYTES as usize + 1));
    for (to, link) in [("in.sh", "link"), ("../outside", "out"), ("/etc/passwd", "far")] {
        std::os::unix::fs::symlink(to, place.workspace.join(link)).unwrap();
    }
    let hash = |name: &str| place.bind(&format!("./{name}"), 0).map(|bound| bound.scripts[0].hash.clone());
    assert_eq!(hash("in.sh"), Some(blake3::hash(b"x").to_hex().to_string()));
    assert_eq!(hash("link"), hash("in.sh"));
    for bad in ["out", "far", "large", "sub", "gone"] {
        assert_eq!(hash(bad), None, "{bad}");
    }
}

#[test]
fn a_run_is_bound_to_the_directory_in_which_it_works() {
    let place = place();
    std::os::unix::fs::symlink("sub", place.workspace.join("link")).unwrap();
    let directory = |command: &str, run: usize| place.bind(command, run).map(|bound| bound.directory);
    assert_eq!(directory("touch x", 0), Some(place.workspace.clone()));
    assert_eq!(directory("cd sub && touch x", 1), Some(place.workspace.join("sub")));
    assert_eq!(directory("cd link && touch x", 1), Some(place.workspace.join("sub")));
    assert_eq!(directory("cd / && touch x", 1), Some("/".into()));
    assert_eq!(directory("cd gone && touch x", 1), None);
    assert_eq!(directory("cd $X && touch x", 1), None);
    assert_eq!(directory("pushd sub && popd && touch x", 2), Some(place.workspace.clone()));
    // Where these lead is not what a plain reading of them says.
    for moves in [
        "cd -PP /tmp/x && cd ..",
        "cd -P link && cd ..",
        "pushd / && popd -n",
        "pushd / && pushd -n sub",
        "OLDPWD=/; cd -",
        "CDPATH=/; cd sub",
    ] {
        let runs = place.analysis(moves).runs.len();
        assert_eq!(directory(&format!("{moves} && touch x"), runs), None, "{moves}");
    }
    assert_eq!(directory("cd -PP sub && touch x", 1), Some(place.workspace.join("sub")));
}

#[test]
fn tasks_are_bound_to_the_files_that_say_what_they_do() {
    let place = place();
    assert_eq!(place.files("npm run build", 0), Some(vec![]));
    place.write("package.json", "{}");
    place.write("sub/package.json", "{}");
    place.write("sub/Cargo.toml", "");
    place.write("sub/build.rs", "");
    let some = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!(place.files("npm run build", 0), some(&["package.json"]));
    assert_eq!(place.files("cd sub && npm run build", 1), some(&["package.json", "sub/package.json"]));
    assert_eq!(place.files("cd sub/deep && cargo build", 1), some(&["sub/Cargo.toml", "sub/build.rs"]));
    assert_eq!(place.files("touch x", 0), some(&[]));
    assert_eq!(place.files("npm --prefix sub run build", 0), None);
    assert_eq!(place.files("cd / && npm run build", 1), None, "outside the workspace");
    let before = place.bind("npm run build", 0);
    assert_eq!(place.bind("npm run build", 0), before);
    assert_eq!(before.and_then(|bound| bound.exact), None, "no script is named");
    place.write("package.json", "{\"scripts\": {}}");
    assert_ne!(place.bind("npm run build", 0), place.bind("cd sub && npm run build", 1));
}

#[test]
fn what_the_command_itself_may_change_is_not_steady() {
    let place = place();
    place.write("run.sh", "x");
    place.write("a.sh", "x");
    place.write("package.json", "{}");
    std::os::unix::fs::symlink("run.sh", place.workspace.join("link.sh")).unwrap();
    let steady = |command: &str, run: usize| {
        let analysis = place.analysis(command);
        let binder = Binder::new(&analysis, &place.workspace);
        let bound = binder.bind(run).unwrap_or_else(|| panic!("{command} is not bound"));
        binder.is_steady(&bound)
    };
    for (command, run) in [
        ("cp a.sh run.sh && ./run.sh", 1),
        ("cp a.sh link.sh && ./run.sh", 1),
        ("cp a.sh run.sh && ./link.sh", 1),
        ("touch a > run.sh; ./run.sh", 1),
        ("rm -r . && ./run.sh", 1),
        ("touch $X && ./run.sh", 1),
        ("some-program && ./run.sh", 1),
        ("./a.sh && ./run.sh", 1),
        ("echo {} > package.json && npm run build", 1),
    ] {
        assert!(!steady(command, run), "{command}");
    }
    for (command, run) in [
        ("./run.sh", 0),
        ("ls && ./run.sh", 1),
        ("cp a.sh other.sh && ./run.sh", 1),
        ("cargo build && npm run build", 1),
        ("touch $X && touch y", 1),
    ] {
        assert!(steady(command, run), "{command}");
    }
}

#[test]
fn a_command_with_very_many_scripts_is_bound_in_part() {
    let place = place();
    place.write("run.sh", "x");
    let command: String =
        (0..2 * MOST_FILES).map(|n| format!("./gone{n}; ")).collect::<String>() + "./run.sh";
    assert_eq!(place.bind(&command, 2 * MOST_FILES).map(|bound| bound.scripts.len()), Some(1));
    let analysis = place.analysis(&command);
    let binder = Binder::new(&analysis, &place.workspace);
    assert_eq!((0..=2 * MOST_FILES).filter_map(|run| binder.bind(run)).count(), 0);
}

#[test]
fn stretches_that_meet_are_found() {
    let span = |start, end| Span { start, end };
    let spans = Spans::new(vec![span(8, 9), span(0, 2), span(1, 4)]);
    for (start, end, touches) in [(4, 5, true), (5, 7, false), (7, 8, true), (10, 12, false), (0, 20, true)] {
        assert_eq!(spans.touch(span(start, end)), touches, "{start}..{end}");
    }
}
