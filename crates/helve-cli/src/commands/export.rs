//! `helve export`: a session as a folder for a bug report, without secrets.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use helve::Caller;
use helve::store;
use helve_agent::export::{Cleaner, ExportError, export as write};
use serde_json::json;

use super::doctor;
use crate::args::Global;
use crate::failure::{Failure, NOT_FOUND};
use crate::{setup, ui};

/// Write a session into a folder for a bug report, without secrets
#[derive(ClapArgs)]
#[command(long_about = "\
Write a session into a folder for a bug report, without secrets.

The folder holds the journal as JSON lines, the whole outputs that it names, the versions of Helve and the system, what \
`helve doctor` finds, what `helve verify` says, and a README. The secrets that your policy knows are taken out, and whatever \
looks like a token, a key or a password. Look through it before you give it away: what does not look like a secret is still \
there. Files of the workspace are not in it, but what tools showed of them is. Nothing is overwritten, and nothing is sent \
anywhere.")]
#[command(after_help = "\
Examples:
  helve export 2026-01-31
  helve export 2026-01-31 ../report")]
pub(crate) struct Options {
    /// The session
    #[arg(value_name = "SESSION")]
    name: String,
    /// The folder to make [default: helve-SESSION in the current directory]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(crate) fn export(global: &Global, options: &Options) -> Result<u8, Failure> {
    let session = &options.name;
    let home = setup::existing_home()?;
    // Said before anything else is done.
    super::replay::holds(home.as_ref(), session, NOT_FOUND)?;
    let Some(home) = home else { return Ok(0) };
    let folder = options.folder.clone().unwrap_or_else(|| PathBuf::from(format!("helve-{session}")));
    if folder.symlink_metadata().is_ok() {
        return Err(told(&ExportError::Exists(folder)));
    }
    let policy = setup::policy(global)?;
    let runtime = setup::builder_for(global, policy.clone(), session.clone(), Caller::Owner)?;
    let runtime = setup::build(runtime)?;
    let verified = store::verify(&home, session, None)?;
    let findings = doctor::findings(global, policy)?;
    let versions = json!({
        "helve": env!("CARGO_PKG_VERSION"),
        "system": std::env::consts::OS,
        "machine": std::env::consts::ARCH,
        "kernel": findings.get("kernel"),
    });
    let verified = serde_json::to_value(&verified).unwrap_or_default();
    let more = [("versions", versions), ("doctor", findings), ("verify", verified)];
    let known = |text: &str| runtime.without_secrets(text);
    let exported =
        write(&home, session, &folder, &Cleaner::new(&known), &more).map_err(|error| told(&error))?;
    if global.json {
        ui::print_json(&exported)?;
    } else {
        ui::print(&format!(
            "{}: {} entries ({} cleaned), {} outputs ({} cleaned)",
            exported.folder.display(),
            exported.entries,
            exported.cleaned_entries,
            exported.blobs,
            exported.cleaned_blobs
        ))?;
        ui::note("look through it before you give it away");
    }
    Ok(0)
}

fn told(error: &ExportError) -> Failure {
    match error {
        ExportError::Exists(_) => Failure::usage(error.to_string()),
        ExportError::Store(_) | ExportError::Write(..) => Failure::internal(error.to_string()),
    }
}
