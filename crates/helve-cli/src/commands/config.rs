//! `helve config`: what is in force, where it comes from, and how to start a configuration of one's own.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use clap::{Args as ClapArgs, Subcommand};
use helve::Policy;
use helve::store::Home;
use serde_json::json;

use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::harmless;
use crate::{setup, ui, workspace_file};

/// Show, check or start the configuration
#[derive(ClapArgs)]
#[command(long_about = "\
Show, check or start the configuration.

Values come from layers, the later ones first: --set on the command line, the user's file, the machine's file, the chosen \
profile, the built-in defaults. A workspace's own helve.toml counts only after `helve trust`, and can only tighten.")]
#[command(after_help = "\
Examples:
  helve config show
  helve config check --config helve.toml
  helve config init && \"${EDITOR:-vi}\" \"$(helve config path)\"")]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print every value in force and where it comes from
    Show,
    /// Say whether the configuration is sound, and what in it is hardly meant
    Check,
    /// Write a commented file with every key
    Init {
        /// Overwrite a file that is there
        #[arg(long)]
        force: bool,
    },
    /// Print where the user's file is looked for; with --json every place that Helve uses
    Path,
}

pub(crate) fn config(global: &Global, options: &Options) -> Result<u8, Failure> {
    match options.action {
        Action::Show => show(global)?,
        Action::Check => check(global)?,
        Action::Init { force } => init(global, force)?,
        Action::Path => path(global)?,
    }
    Ok(0)
}

fn show(global: &Global) -> Result<(), Failure> {
    let settings = setup::policy(global)?.explain();
    if global.json {
        return ui::print_json(&settings);
    }
    let mut text = String::new();
    for setting in &settings {
        let key = harmless(&setting.key);
        let _ = match setting.toml() {
            Some(value) => {
                let origin = ui::styled(ui::FAINT, &format!("# {}", harmless(&setting.origin.to_string())));
                // What is printed is a configuration for a user, who cannot write a ceiling and should not write `(hidden)`.
                let mark = if key.starts_with("ceiling.") || setting.hidden { "# " } else { "" };
                writeln!(text, "{mark}{key} = {}  {origin}", harmless(&value))
            }
            None => writeln!(text, "{}", ui::styled(ui::FAINT, &format!("# {key} is not set"))),
        };
    }
    ui::print_styled(&text)
}

fn check(global: &Global) -> Result<(), Failure> {
    let sources = setup::all_sources(global)?;
    let policy = Policy::load(&sources).map_err(|error| Failure::usage(error.to_string()))?;
    // What only a call would run into counts too: rules for tools that do not exist, secrets that cannot be read.
    let runtime = setup::runtime_with(global, policy)?;
    let mut warnings = runtime.policy().check_all().map_err(|error| Failure::usage(error.to_string()))?;
    warnings.extend(in_workspace(global)?);
    let owners = [sources.system, sources.user].into_iter().flatten().filter(|file| file.exists());
    // The trusted file counts as it was trusted, also when it is gone.
    let files: Vec<_> = owners.chain(sources.workspace.map(|file| file.path)).collect();
    if global.json {
        let files: Vec<String> = files.iter().map(|file| ui::path_text(file)).collect();
        return ui::print_json(&json!({"ok": true, "files": files, "warnings": warnings}));
    }
    for warning in &warnings {
        ui::note(&harmless(warning));
    }
    let read: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let read = if read.is_empty() { "no file".to_owned() } else { read.join(", ") };
    ui::print(&harmless(&format!("The configuration is sound ({read} read).")))
}

/// What is wrong with a file of `--config` that lies where commands can write.
fn in_workspace(global: &Global) -> Result<Option<String>, Failure> {
    let Some(file) = &global.config else { return Ok(None) };
    let workspace = setup::workspace(global)?;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // The workspace's own file is checked for what it is there.
    if real(file) == real(&workspace_file::path(&workspace)) {
        return Ok(None);
    }
    Ok(real(file).starts_with(real(&workspace)).then(|| {
        format!(
            "{} lies in the workspace {}, where commands could change it: with this --config no call may touch the workspace. Keep \
             the file elsewhere, or name another directory with --workspace",
            file.display(),
            workspace.display()
        )
    }))
}

fn init(global: &Global, force: bool) -> Result<(), Failure> {
    let file = user_file(global)?;
    let cannot =
        |error: std::io::Error| Failure::usage(format!("{} cannot be written: {error}", file.display()));
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).map_err(cannot)?;
    }
    let mut open = std::fs::File::options();
    open.write(true);
    let open = if force { open.create(true).truncate(true) } else { open.create_new(true) };
    let mut out = match open.open(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(Failure::usage(format!(
                "{} is there already. --force overwrites it",
                file.display()
            )));
        }
        opened => opened.map_err(cannot)?,
    };
    out.write_all(helve::starter().as_bytes()).map_err(cannot)?;
    if global.json {
        return ui::print_json(&json!({"file": ui::path_text(&file)}));
    }
    ui::note(&harmless(&format!("{} is written; every line in it is a comment", file.display())));
    Ok(())
}

fn path(global: &Global) -> Result<(), Failure> {
    let user = user_file(global)?;
    if global.json {
        let place = |path: &Path| json!({"path": ui::path_text(path), "exists": path.exists()});
        let system = setup::sources(global).system;
        return ui::print_json(&json!({
            "system": system.as_deref().map(place),
            "user": place(&user),
            "state": place(&Home::default_path()?),
        }));
    }
    ui::print(&user.display().to_string())
}

fn user_file(global: &Global) -> Result<std::path::PathBuf, Failure> {
    setup::sources(global).user.ok_or_else(|| {
        Failure::usage("there is no place for a user's file: set XDG_CONFIG_HOME or HOME, or name one with --config FILE")
    })
}
