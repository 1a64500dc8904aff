//! Which files say what a task does: `npm run build` runs what `package.json` says. A grant for such a command is bound to
//! the content of these files, in the directory where it runs and in those around it up to the workspace.
//!
//! Deliberately not here: the code that a task runs in the end. `cargo test` runs the tests of the project, which change
//! with every edit; whoever grants it for longer grants that.

use helve_shell::analysis::Run;

/// A family of programs and the files that they read.
pub(super) struct Tasks {
    programs: &'static [&'static str],
    /// The files by their names, relative to the directory.
    pub(super) files: &'static [&'static str],
    /// Options that make them read other files, each as a whole word or in front of `=`.
    elsewhere: &'static [&'static str],
}

const TABLE: &[Tasks] = &[
    Tasks {
        programs: &["bun", "npm", "pnpm", "yarn"],
        files: &["package.json", ".npmrc", ".pnpmfile.cjs", ".yarnrc", ".yarnrc.yml", "bunfig.toml"],
        elsewhere: &[
            "--cwd",
            "--dir",
            "--filter",
            "--prefix",
            "--recursive",
            "--userconfig",
            "--workspace",
            "--workspaces",
            "-C",
            "-F",
            "-r",
            "-w",
            "-ws",
        ],
    },
    Tasks {
        programs: &["cargo"],
        files: &[
            "Cargo.toml",
            "build.rs",
            ".cargo/config",
            ".cargo/config.toml",
            "rust-toolchain",
            "rust-toolchain.toml",
        ],
        elsewhere: &["--config", "--manifest-path", "-C"],
    },
    Tasks {
        programs: &["gmake", "make"],
        files: &["GNUmakefile", "Makefile", "makefile"],
        elsewhere: &["--directory", "--file", "--include-dir", "--makefile", "-C", "-I", "-f"],
    },
    Tasks {
        programs: &["just"],
        files: &[".justfile", "Justfile", "justfile"],
        elsewhere: &["--justfile", "--working-directory", "-d", "-f"],
    },
    Tasks {
        programs: &["hatch", "nox", "pdm", "pip", "pip3", "poetry", "pytest", "py.test", "tox", "uv"],
        files: &[
            "pyproject.toml",
            "conftest.py",
            "noxfile.py",
            "pytest.ini",
            "setup.cfg",
            "setup.py",
            "tox.ini",
            "uv.toml",
        ],
        elsewhere: &[
            "--config-file",
            "--confcutdir",
            "--conf",
            "--directory",
            "--noxfile",
            "--project",
            "--rootdir",
            "--workdir",
            "-C",
            "-c",
            "-f",
        ],
    },
    Tasks {
        programs: &["gradle", "mvn"],
        files: &[
            "build.gradle",
            "build.gradle.kts",
            "gradle.properties",
            "pom.xml",
            "settings.gradle",
            "settings.gradle.kts",
            ".mvn/extensions.xml",
            ".mvn/jvm.config",
            ".mvn/maven.config",
        ],
        elsewhere: &["--build-file", "--file", "--init-script", "--project-dir", "-I", "-b", "-f", "-p"],
    },
    Tasks {
        programs: &["bundle", "composer", "rails", "rake"],
        files: &["Gemfile", "Rakefile", "composer.json"],
        elsewhere: &["--gemfile", "--rakefile", "--working-dir", "-d", "-f"],
    },
    Tasks { programs: &["go"], files: &["go.mod", "go.work"], elsewhere: &["-C", "-modfile"] },
];

/// The files that the program reads its tasks from; none if it has no tasks.
pub(super) fn of(run: &Run) -> Option<&'static Tasks> {
    let program = run.program.as_deref()?;
    TABLE.iter().find(|tasks| tasks.programs.contains(&program))
}

impl Tasks {
    /// Whether an option may lead to files of another place.
    pub(super) fn may_lead_elsewhere(&self, run: &Run) -> bool {
        let leads = |text: &str| {
            self.elsewhere.iter().any(|option| {
                let long = option.starts_with("--");
                // A short option takes its value in the same word too.
                text == *option
                    || text.strip_prefix(option).is_some_and(|rest| !long || rest.starts_with('='))
            })
        };
        run.argv.iter().skip(1).any(|arg| match arg.text() {
            Some(text) => leads(text),
            None => arg.may_be_option(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_shell::analysis::Setting;
    use helve_shell::tree::Dialect;
    use std::path::Path;

    fn leads(command: &str) -> Option<bool> {
        let (directory, workspace) = (Path::new("/w"), Path::new("/w"));
        let setting = Setting { dialect: Dialect::Bash, directory, workspace, home: None };
        let analysis = helve_shell::analyze(command, &setting);
        of(&analysis.runs[0]).map(|tasks| tasks.may_lead_elsewhere(&analysis.runs[0]))
    }

    #[test]
    fn options_that_name_another_place_are_seen_in_every_spelling() {
        for elsewhere in [
            "make -C sub",
            "make -Csub",
            "make -f x.mk",
            "npm --prefix sub run build",
            "npm --prefix=sub run build",
            "npm $X run build",
            "cargo build --manifest-path sub/Cargo.toml",
        ] {
            assert_eq!(leads(elsewhere), Some(true), "{elsewhere}");
        }
        for here in ["make test", "npm run build", "cargo build -p x --release", "pytest -q tests"] {
            assert_eq!(leads(here), Some(false), "{here}");
        }
        assert_eq!(leads("touch -C x"), None);
    }
}
