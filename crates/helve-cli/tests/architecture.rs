//! The shape of the project, as tests: which crate may know which, which dependency lives where, where `unsafe`
//! may stand, how long a file may be, and that no file speaks of a developer's machine.
//!
//! Each rule is a pure function from data to a list of violations, so that one run shows them all and a planted
//! violation proves that the rule bites. Reading the project (cargo, git, the file system) is kept apart, at the end.
//!
//! Long file: the tables of layers and homes, the rules over them and the planted violations are read together.
//!
//! Not here: licenses and sources of dependencies (`deny.toml`), style (`rustfmt.toml`, the workspace lints).

use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::Value;

/// One crate and the crates of this workspace that it may use. `height` orders them: arrows point down.
struct Layer {
    name: &'static str,
    height: u8,
    may_use: &'static [&'static str],
}

/// The crates from the top down, as in ARCHITECTURE.md. A new crate gets its line here.
const LAYERS: &[Layer] = &[
    Layer { name: "helve-cli", height: TOP, may_use: &["helve-agent", "helve", "helve-core"] },
    Layer { name: "helve-bench", height: TOP, may_use: &["helve", "helve-core"] },
    Layer { name: "greeter", height: TOP, may_use: &["helve"] },
    Layer { name: "helve-agent", height: 6, may_use: &["helve"] },
    Layer {
        name: "helve",
        height: 5,
        may_use: &[
            "helve-tools",
            "helve-mcp",
            "helve-runtime",
            "helve-policy",
            "helve-sandbox",
            "helve-store",
            "helve-workspace",
            "helve-shell",
            "helve-core",
        ],
    },
    Layer { name: "helve-tools", height: 4, may_use: &["helve-shell", "helve-core"] },
    Layer { name: "helve-mcp", height: 4, may_use: &["helve-core"] },
    Layer {
        name: "helve-runtime",
        height: 3,
        may_use: &[
            "helve-policy",
            "helve-sandbox",
            "helve-store",
            "helve-workspace",
            "helve-shell",
            "helve-core",
        ],
    },
    Layer { name: "helve-policy", height: 2, may_use: &["helve-shell", "helve-core"] },
    Layer { name: "helve-sandbox", height: 2, may_use: &["helve-shell", "helve-core"] },
    Layer { name: "helve-store", height: 2, may_use: &["helve-shell", "helve-core"] },
    Layer { name: "helve-workspace", height: 2, may_use: &["helve-core"] },
    Layer { name: "helve-shell", height: 1, may_use: &["helve-core"] },
    Layer { name: "helve-core", height: 0, may_use: &[] },
];

/// Programs, which no crate depends on: their tests may use everything.
const TOP: u8 = 7;

/// Outside crates that only the named crates may use.
const HOMES: &[(&str, &[&str])] = &[
    ("clap", &["helve-cli", "helve-bench"]),
    ("clap_complete", &["helve-cli", "helve-bench"]),
    ("anstream", &["helve-cli", "helve-bench"]),
    ("rusqlite", &["helve-store"]),
    ("jsonschema", &["helve-runtime"]),
    ("rmcp", &["helve-mcp", "helve-bench"]),
];

/// Outside crates that the named crates may not use: these are plain, synchronous code.
const BARRED: &[(&str, &[&str])] = &[("tokio", &["helve-policy", "helve-shell", "helve-store"])];

/// The modules that may hold unsafe code, as `path/to/module` for `module.rs` and `module/`.
/// Keyrings have no safe interface, so the test that the command gets its own calls the kernel itself.
const UNSAFE_HOMES: &[&str] = &[
    "crates/helve-sandbox/src/sys",
    "crates/helve-sandbox/tests/it/rung",
    "crates/helve-sandbox/tests/it/secrets",
];

/// In two pieces, so that this file does not break its own rules.
const UNSAFE: &str = concat!("un", "safe");
const UNSAFE_LINT: &str = concat!("un", "safe_code");

/// A file with more lines says why in its header.
const LONG_FILE: usize = 500;
const LONG_FILE_REASON: &str = "//! Long file:";

/// Names in example paths such as a home directory, which belong to nobody.
const NOBODY: &[&str] = &["user", "alice", "bob", "me", "you"];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Part of what is built: normal and build dependencies.
    Built,
    Dev,
}

/// What `cargo metadata` says of one crate of the workspace.
struct Package {
    name: String,
    /// Its Cargo.toml, relative to the root.
    manifest: String,
    dependencies: Vec<(String, Kind)>,
}

fn layer(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}

/// Arrows between our own crates. Tests may reach further than the code they test, but never up or sideways:
/// that would let a lower crate rely on what is built on it.
fn arrow_violations(packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    for package in packages {
        let Some(own) = layer(&package.name) else {
            found.push(format!("{}: not in the table of layers; say there what it may use", package.name));
            continue;
        };
        for (dependency, kind) in &package.dependencies {
            let Some(other) = layer(dependency) else { continue };
            match kind {
                Kind::Built if !own.may_use.contains(&other.name) => found.push(format!(
                    "{} -> {dependency}: not allowed; {} may use {:?}",
                    own.name, own.name, own.may_use
                )),
                Kind::Dev if own.height < TOP && other.height >= own.height => {
                    found.push(format!("{} -> {dependency}: test dependency does not point down", own.name));
                }
                Kind::Built | Kind::Dev => {}
            }
        }
    }
    for layer in LAYERS {
        if !packages.iter().any(|package| package.name == layer.name) {
            found.push(format!("{}: in the table of layers, but there is no such crate", layer.name));
        }
    }
    found
}

/// Outside crates in a crate where they do not belong. What only tests use is free.
fn dependency_violations(packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    for package in packages {
        let built = package.dependencies.iter().filter(|(_, kind)| *kind == Kind::Built);
        for (dependency, _) in built {
            let name = package.name.as_str();
            for (_, homes) in HOMES.iter().filter(|(outside, _)| outside == dependency) {
                if !homes.contains(&name) {
                    found.push(format!("{name} -> {dependency}: only {homes:?} may use it"));
                }
            }
            if BARRED.iter().any(|(outside, crates)| outside == dependency && crates.contains(&name)) {
                found.push(format!("{name} -> {dependency}: must do without it"));
            }
        }
    }
    found
}

/// Dependencies that the workspace declares and no crate takes.
fn unused_dependencies(manifest: &str, packages: &[Package]) -> Vec<String> {
    let table = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let entries = table.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    let declared = entries.filter_map(|line| Some(line.split_once('=')?.0.trim()));
    let used =
        |name: &str| packages.iter().any(|package| package.dependencies.iter().any(|(d, _)| d == name));
    declared.filter(|name| !used(name)).map(|name| format!("Cargo.toml: no crate uses {name}")).collect()
}

/// Unsafe code outside its homes, and attempts to switch its lint off there.
fn unsafe_violations(path: &str, text: &str) -> Vec<String> {
    let is_module = |rest: &str| rest == ".rs" || rest.starts_with('/');
    if UNSAFE_HOMES.iter().any(|home| path.strip_prefix(home).is_some_and(is_module)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let place = format!("{path}:{}", index + 1);
        if has_unsafe_keyword(code) {
            found.push(format!("{place}: {UNSAFE} code outside {UNSAFE_HOMES:?}"));
        }
        let tightened = code.contains("deny(") || code.contains("forbid(");
        if !tightened && after_word(code, UNSAFE_LINT).next().is_some() {
            found.push(format!(
                "{place}: the lint {UNSAFE_LINT} may only be loosened inside {UNSAFE_HOMES:?}"
            ));
        }
    }
    found
}

/// Whether the keyword stands where Rust gives it meaning; as a word in a message it is harmless.
fn has_unsafe_keyword(code: &str) -> bool {
    after_word(code, UNSAFE).any(|after| {
        let next = after.trim_start();
        let opens = ["{", "fn ", "impl", "extern", "trait "].iter().any(|token| next.starts_with(token));
        next.is_empty() || after.starts_with('(') || opens
    })
}

/// What follows each place where `word` stands as a whole word.
fn after_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).filter_map(move |(start, _)| {
        let (before, after) = (&code[..start], &code[start + word.len()..]);
        (!before.ends_with(in_name) && !after.starts_with(in_name)).then_some(after)
    })
}

/// A crate that does not take the workspace's lints escapes all of them.
fn lint_violations(path: &str, manifest: &str) -> Vec<String> {
    let takes_them = manifest.contains("\n[lints]\nworkspace = true");
    if takes_them { Vec::new() } else { vec![format!("{path}: lacks `[lints]` with `workspace = true`")] }
}

fn length_violations(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    let mut header = text.lines().take_while(|line| line.starts_with("//!"));
    let has_reason = header
        .any(|line| line.strip_prefix(LONG_FILE_REASON).is_some_and(|reason| !reason.trim().is_empty()));
    if lines <= LONG_FILE || has_reason {
        return Vec::new();
    }
    vec![format!("{path}: {lines} lines; split it, or say why not after `{LONG_FILE_REASON}` in its header")]
}

/// Absolute paths that exist only on somebody's machine: this checkout, and home directories of real people.
fn machine_path_violations(path: &str, text: &str, checkout: &str) -> Vec<String> {
    let in_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut report = |what: &str| found.push(format!("{path}:{}: {what}", index + 1));
        for home in [concat!("/ho", "me/"), concat!("/Us", "ers/")] {
            for (start, _) in line.match_indices(home) {
                let rest = &line[start + home.len()..];
                let name = &rest[..rest.find(|c| !in_name(c)).unwrap_or(rest.len())];
                let is_path = !line[..start].ends_with(in_name) && rest[name.len()..].starts_with('/');
                if is_path && !name.is_empty() && !NOBODY.contains(&name) {
                    report(&format!("home directory {home}{name}"));
                }
            }
        }
        for toolchain in [concat!("/ro", "ot/.cargo"), concat!("/ro", "ot/.rustup")] {
            if line.contains(toolchain) {
                report(&format!("toolchain directory {toolchain}"));
            }
        }
        // A checkout right below the root, such as /src, is too common a word to look for.
        let tellable = Path::new(checkout).components().count() > 2;
        let here = |(start, _): (usize, &str)| !line[start + checkout.len()..].starts_with(in_name);
        if tellable && line.match_indices(checkout).any(here) {
            report(&format!("path of a checkout {checkout}"));
        }
    }
    found
}

#[test]
fn arrows_between_crates_point_down() -> Result<(), Box<dyn Error>> {
    assert_none(arrow_violations(&packages()?));
    Ok(())
}

#[test]
fn outside_crates_stay_in_their_homes() -> Result<(), Box<dyn Error>> {
    assert_none(dependency_violations(&packages()?));
    Ok(())
}

#[test]
fn every_declared_dependency_is_used() -> Result<(), Box<dyn Error>> {
    let manifest = std::fs::read_to_string(root()?.join("Cargo.toml"))?;
    assert_none(unused_dependencies(&manifest, &packages()?));
    Ok(())
}

#[test]
fn table_of_layers_points_down() {
    for own in LAYERS {
        for name in own.may_use {
            assert!(layer(name).is_some_and(|other| other.height < own.height), "{} -> {name}", own.name);
        }
    }
}

#[test]
fn unsafe_code_stays_in_its_home() -> Result<(), Box<dyn Error>> {
    assert_none(check_each(&rust_files()?, unsafe_violations)?);
    let manifests: Vec<_> = packages()?.into_iter().map(|package| package.manifest).collect();
    assert_none(check_each(&manifests, lint_violations)?);
    let workspace = std::fs::read_to_string(root()?.join("Cargo.toml"))?;
    let denied = format!("\n{UNSAFE_LINT} = \"deny\"\n");
    assert!(workspace.contains(&denied), "the workspace's lints do not deny {UNSAFE_LINT}");
    Ok(())
}

#[test]
fn long_files_say_why() -> Result<(), Box<dyn Error>> {
    assert_none(check_each(&rust_files()?, length_violations)?);
    Ok(())
}

#[test]
fn no_file_names_a_developers_machine() -> Result<(), Box<dyn Error>> {
    let root = root()?;
    let checkout = root.to_str().ok_or("the checkout's path is not UTF-8")?;
    assert_none(check_each(&tracked_files()?, |path, text| machine_path_violations(path, text, checkout))?);
    Ok(())
}

#[test]
fn planted_arrows_are_found() {
    let mut packages: Vec<Package> = LAYERS.iter().map(|layer| package(layer.name, &[])).collect();
    assert_eq!(arrow_violations(&packages), Vec::<String>::new());

    packages.retain(|package| package.name != "helve-shell");
    packages.push(package("helve-policy", &[("helve-store", Kind::Built), ("helve-core", Kind::Built)]));
    packages.push(package("helve-tools", &[("helve-runtime", Kind::Dev), ("helve", Kind::Dev)]));
    packages.push(package("helve-cli", &[("helve-sandbox", Kind::Dev)]));
    packages.push(package("helve-new", &[]));
    assert_eq!(
        arrow_violations(&packages),
        [
            r#"helve-policy -> helve-store: not allowed; helve-policy may use ["helve-shell", "helve-core"]"#,
            "helve-tools -> helve: test dependency does not point down",
            "helve-new: not in the table of layers; say there what it may use",
            "helve-shell: in the table of layers, but there is no such crate",
        ]
    );
}

#[test]
fn planted_dependencies_are_found() {
    let packages = [
        package("helve-cli", &[("clap", Kind::Built), ("rusqlite", Kind::Built)]),
        package("helve-store", &[("rusqlite", Kind::Built), ("tokio", Kind::Built)]),
        package("helve-policy", &[("tokio", Kind::Dev)]),
    ];
    assert_eq!(
        dependency_violations(&packages),
        [
            r#"helve-cli -> rusqlite: only ["helve-store"] may use it"#,
            "helve-store -> tokio: must do without it",
        ]
    );
    let manifest =
        "[workspace.dependencies]\nclap = \"4\"\n\n# Tests.\ninsta = \"1\"\n[workspace.lints]\nx = 1\n";
    assert_eq!(unused_dependencies(manifest, &packages), ["Cargo.toml: no crate uses insta"]);
}

#[test]
fn planted_unsafe_code_is_found() {
    let lines = [
        format!("let x = {UNSAFE} {{ read() }};"),
        format!("{UNSAFE} impl Send for X {{}}"),
        format!("#[{UNSAFE}(no_mangle)]"),
        format!("#![allow({UNSAFE_LINT}, reason = \"why not\")]"),
    ];
    for line in &lines {
        assert_eq!(unsafe_violations("crates/helve-core/src/lib.rs", line).len(), 1, "{line}");
        assert_eq!(unsafe_violations("crates/helve-sandbox/src/system.rs", line).len(), 1, "{line}");
        assert_eq!(unsafe_violations("crates/helve-sandbox/src/sys/fork.rs", line), Vec::<String>::new());
        assert_eq!(unsafe_violations("crates/helve-sandbox/src/sys.rs", line), Vec::<String>::new());
    }
    let harmless = format!("#![forbid({UNSAFE_LINT})] // {UNSAFE} {{\nlet m = \"an {UNSAFE} path\";");
    assert_eq!(unsafe_violations("crates/helve-core/src/lib.rs", &harmless), Vec::<String>::new());
    assert_eq!(lint_violations("Cargo.toml", "[package]\nname = \"x\"\n").len(), 1);
}

#[test]
fn what_cannot_be_read_is_not_passed_over() -> Result<(), Box<dyn Error>> {
    let found = check_each(&["crates/absent/Cargo.toml".to_owned()], lint_violations)?;
    assert_eq!(found.len(), 1, "{found:?}");
    let greeter = packages()?.into_iter().find(|package| package.name == "greeter").ok_or("no greeter")?;
    assert_eq!(greeter.manifest, "examples/greeter/Cargo.toml");
    Ok(())
}

#[test]
fn planted_long_file_is_found() {
    let body = "fn f() {}\n".repeat(LONG_FILE);
    assert_eq!(length_violations("a.rs", &body), Vec::<String>::new());
    assert_eq!(length_violations("a.rs", &format!("//! Map.\n{body}")).len(), 1);
    assert_eq!(length_violations("a.rs", &format!("//! Map.\n{LONG_FILE_REASON}\n{body}")).len(), 1);
    assert_eq!(length_violations("a.rs", &format!("{body}\n{LONG_FILE_REASON} late\n")).len(), 1);
    let excused = format!("//! Map.\n{LONG_FILE_REASON} one table\n{body}");
    assert_eq!(length_violations("a.rs", &excused), Vec::<String>::new());
}

#[test]
fn planted_machine_path_is_found() {
    let count = |text: &str| machine_path_violations("a.md", text, "/builds/helve").len();
    assert_eq!(count(&format!("cd {}carol/src", concat!("/ho", "me/"))), 1);
    assert_eq!(count(&format!("\"{}carol/src\"", concat!("/Us", "ers/"))), 1);
    assert_eq!(count("see /builds/helve/README.md\nand /builds/helve"), 2);
    assert_eq!(count(&format!("{}/bin", concat!("/ro", "ot/.cargo"))), 1);
    assert_eq!(count("/home/user/x /home/$USER/x https://example.org/home/carol/x /builds/helve-old"), 0);
}

fn package(name: &str, dependencies: &[(&str, Kind)]) -> Package {
    let dependencies = dependencies.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
    Package { name: name.to_owned(), manifest: format!("crates/{name}/Cargo.toml"), dependencies }
}

fn assert_none(violations: Vec<String>) {
    assert!(violations.is_empty(), "{} violations:\n  {}", violations.len(), violations.join("\n  "));
}

fn root() -> Result<PathBuf, Box<dyn Error>> {
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?)
}

fn packages() -> Result<Vec<Package>, Box<dyn Error>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root()?)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let root = root()?;
    let packages: Option<_> = packages.iter().map(|package| read_package(package, &root)).collect();
    Ok(packages.ok_or("cargo metadata leaves out names, manifests below the root, or dependencies")?)
}

fn read_package(package: &Value, root: &Path) -> Option<Package> {
    let dependency = |entry: &Value| {
        let kind = if entry["kind"] == "dev" { Kind::Dev } else { Kind::Built };
        Some((entry["name"].as_str()?.to_owned(), kind))
    };
    let dependencies = package["dependencies"].as_array()?.iter().map(dependency).collect::<Option<_>>()?;
    let manifest =
        Path::new(package["manifest_path"].as_str()?).strip_prefix(root).ok()?.to_str()?.to_owned();
    Some(Package { name: package["name"].as_str()?.to_owned(), manifest, dependencies })
}

/// Runs one rule over files given relative to the root. What is not text (a link to a directory is none) has nothing to say; a file that
/// cannot be read is a violation, for nobody knows what it says.
fn check_each(
    paths: &[String],
    rule: impl Fn(&str, &str) -> Vec<String>,
) -> Result<Vec<String>, Box<dyn Error>> {
    let root = root()?;
    assert!(!paths.is_empty(), "no files to check");
    let check = |path: &String| match std::fs::read_to_string(root.join(path)) {
        Ok(text) => rule(path, &text),
        Err(error) if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::IsADirectory) => Vec::new(),
        Err(error) => vec![format!("{path}: cannot be checked: {error}")],
    };
    Ok(paths.iter().flat_map(check).collect())
}

fn rust_files() -> Result<Vec<String>, Box<dyn Error>> {
    Ok(all_files()?.into_iter().filter(|path| path.ends_with(".rs")).collect())
}

/// What git keeps and is there; in a copy without git, every file.
fn tracked_files() -> Result<Vec<String>, Box<dyn Error>> {
    let listing = Command::new("git").args(["ls-files", "-z"]).current_dir(root()?).output();
    match listing {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            let (names, root) = (String::from_utf8(output.stdout)?, root()?);
            // What was taken away and not committed yet is still in git's list.
            let there = |name: &&str| root.join(name).symlink_metadata().is_ok();
            Ok(names.split_terminator('\0').filter(there).map(str::to_owned).collect())
        }
        _ => all_files(),
    }
}

/// Every file below the root except what builds and git leave there. Symbolic links are not followed.
fn all_files() -> Result<Vec<String>, Box<dyn Error>> {
    let root = root()?;
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    let skipped = [".git", "target", "fuzz/target"].map(|name| root.join(name));
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
            if kind.is_dir() && !skipped.contains(&path) {
                folders.push(path);
            } else if kind.is_file() {
                files.push(path.strip_prefix(&root)?.to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}
