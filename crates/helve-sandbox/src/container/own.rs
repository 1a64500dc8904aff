//! This program inside a container, whatever the image is: the program, its loader and its libraries, mounted read-only.
//!
//! The image needs nothing for it, no C library and not even a shell. It has to be one for this machine's processor.

use std::path::{Path, PathBuf};

use helve_core::ToolError;

use super::engine::unavailable;
use crate::sys::loaded;

/// Where it all lies inside.
pub(super) const PLACE: &str = "/.helve";

/// The files of this program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Own {
    /// What is mounted: the file outside and its place inside.
    pub(super) files: Vec<(PathBuf, String)>,
    /// What starts it inside.
    pub(super) words: Vec<String>,
}

impl Own {
    /// Those of this process.
    pub(super) fn find() -> Result<Own, ToolError> {
        let program = std::env::current_exe().map_err(|error| {
            unavailable(format!("The path of this program cannot be had: {error}")).hint("Mount /proc.")
        })?;
        Own::of(&program, &loaded::shared_objects())
    }

    fn of(program: &Path, objects: &[PathBuf]) -> Result<Own, ToolError> {
        let at = |name: &str| format!("{PLACE}/{name}");
        let mut files = vec![(real(program)?, at("program"))];
        let mut loader = None;
        for object in objects {
            let name = object.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let place = at(&format!("lib/{name}"));
            if name.starts_with("ld-") {
                loader = Some(place.clone());
            }
            files.push((real(object)?, place));
        }
        let mut words = Vec::new();
        if let Some(loader) = loader {
            words.extend([loader, "--library-path".to_owned(), at("lib")]);
        }
        words.push(at("program"));
        Ok(Own { files, words })
    }
}

fn real(path: &Path) -> Result<PathBuf, ToolError> {
    path.canonicalize().map_err(|error| {
        unavailable(format!("The file {} of this program is not there any more: {error}", path.display()))
            .hint("It was replaced while Helve runs: start Helve anew.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_brings_its_loader_and_its_libraries() {
        let own = Own::find().unwrap();
        let places: Vec<&str> = own.files.iter().map(|(_, place)| place.as_str()).collect();
        assert_eq!(places[0], "/.helve/program");
        assert_eq!(own.words.last().unwrap(), "/.helve/program");
        if cfg!(target_env = "gnu") {
            assert!(places.contains(&"/.helve/lib/libc.so.6"), "{places:?}");
            assert!(own.words[0].starts_with("/.helve/lib/ld-"), "{:?}", own.words);
        }
        assert!(own.files.iter().all(|(file, _)| file.is_file()));
    }

    #[test]
    fn a_static_program_needs_nothing_else_and_a_replaced_one_is_told() {
        let program = std::env::current_exe().unwrap();
        assert_eq!(Own::of(&program, &[]).unwrap().words, ["/.helve/program"]);
        let error = Own::of(Path::new("/nonexistent (deleted)"), &[]).unwrap_err();
        assert!(error.hint.unwrap().contains("start Helve anew"));
    }
}
