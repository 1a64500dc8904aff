//! `scripts/build` builds with what Helve has counted of itself, if that is of the compiler that is here.
//!
//! The scripts' own words run in a directory like the repository, with a compiler and a cargo that only say how they were
//! called.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pretty_assertions::assert_eq;

const HOST: &str = "helve-test-host";
const COMPILER: &str = "rustc 1.95.0 (0123456789 2026-04-14)\nhost: helve-test-host\nLLVM version: 22.1.2";

/// A repository with scripts, a compiler and counts that were made with it.
struct Repository(tempfile::TempDir);

impl Repository {
    fn new() -> Repository {
        let repository = Repository(tempfile::tempdir().unwrap());
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/lib.sh");
        for name in ["scripts", "counts", "bin"] {
            fs::create_dir(repository.path(name)).unwrap();
        }
        fs::copy(own, repository.path("scripts/lib.sh")).unwrap();
        repository.program("rustc", &format!("cat <<'END'\n{COMPILER}\nEND"));
        repository.program(
            "cargo",
            r#"echo "cargo $*"; printf '%s\n' "${CARGO_ENCODED_RUSTFLAGS-none}" | tr '\037' '\n'"#,
        );
        repository.count("the counts", COMPILER);
        repository
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Puts counts into the place of those before.
    fn count(&self, counts: &str, compiler: &str) {
        let plain = self.path("plain");
        fs::write(&plain, counts).unwrap();
        let packed = Command::new("gzip").args(["--no-name", "--stdout"]).arg(&plain).output().unwrap();
        fs::write(self.path(&format!("counts/{HOST}.gz")), packed.stdout).unwrap();
        fs::write(self.path(&format!("counts/{HOST}.compiler")), format!("{compiler}\n")).unwrap();
    }

    fn build(&self, flags: Option<&str>) -> Output {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        bash.args(["-c", "source scripts/lib.sh; step Build build_helve; helve"]).current_dir(self.0.path());
        for name in ["CARGO_TARGET_DIR", "CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"] {
            bash.env_remove(name);
        }
        bash.env("PATH", path).envs(flags.map(|flags| ("RUSTFLAGS", flags))).output().unwrap()
    }

    /// What cargo was given: its arguments, and the flags for the compiler.
    fn built(&self, flags: Option<&str>) -> (String, Vec<String>) {
        let output = self.build(flags);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        let mut lines = said.lines().skip_while(|line| !line.starts_with("cargo "));
        let called = lines.next().unwrap().to_owned();
        let flags = lines.take_while(|line| !line.starts_with("== Build")).map(str::to_owned).collect();
        assert!(said.trim_end().ends_with(&format!("/target/{HOST}/release/helve")), "{said}");
        (called, flags)
    }
}

/// The file with counts that the compiler is told to use.
fn used(flags: &[String]) -> Option<PathBuf> {
    flags.iter().find_map(|flag| flag.strip_prefix("-Cprofile-use=")).map(PathBuf::from)
}

#[test]
fn the_program_is_built_with_the_counts_of_this_compiler() {
    let repository = Repository::new();
    let (called, flags) = repository.built(None);
    assert_eq!(called, format!("cargo build --release --locked --target {HOST} --package helve-cli"));
    let counts = used(&flags).unwrap();
    assert_eq!(fs::read_to_string(&counts).unwrap(), "the counts");
    assert_eq!(repository.built(None).1, flags, "nothing is built anew");

    repository.count("other counts", COMPILER);
    let other = used(&repository.built(None).1).unwrap();
    assert_eq!(fs::read_to_string(&other).unwrap(), "other counts");
    assert!(other != counts, "cargo builds anew only if the name is another one");
}

#[test]
fn flags_that_are_wanted_stay() {
    let repository = Repository::new();
    let (_, alone) = repository.built(None);
    let (_, flags) = repository.built(Some("-Ctarget-cpu=native  -Cdebuginfo=1"));
    assert_eq!(flags[..2], ["-Ctarget-cpu=native", "-Cdebuginfo=1"]);
    assert_eq!(flags[2..], alone);
}

#[test]
fn counts_of_another_compiler_are_left_alone() {
    let repository = Repository::new();
    repository.count("the counts", &COMPILER.replace("1.95.0", "1.96.0"));
    assert_eq!(repository.built(None).1, ["none"]);
    fs::remove_dir_all(repository.path("counts")).unwrap();
    assert_eq!(repository.built(None).1, ["none"]);
}

#[test]
fn damaged_counts_end_the_build() {
    let repository = Repository::new();
    fs::write(repository.path(&format!("counts/{HOST}.gz")), "no gzip").unwrap();
    for _ in 0..2 {
        let output = repository.build(None);
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(!said.contains("cargo build"), "{said}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("gzip"));
    }
}
