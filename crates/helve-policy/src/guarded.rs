//! Where a file can be changed from: its path as written, every link on the way, and the place where it really is.
//!
//! Whoever can write one of these can put another file in its place, also one that does not exist yet. Not here: which
//! files are guarded, and what is refused for their sake.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use helve_shell::normal;

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

/// All places through which `path` leads, absolute and without `.` and `..`; all but the first without links before
/// their last part. Empty for the empty path.
pub(crate) fn places(path: &Path) -> Vec<PathBuf> {
    let Ok(path) = std::path::absolute(path) else { return Vec::new() };
    let mut places = vec![normal(&path)];
    let mut add = |place: &Path| {
        if !places.iter().any(|known| known == place) {
            places.push(place.to_owned());
        }
    };
    let mut at = PathBuf::from("/");
    let mut ahead = parts_from_last(&path);
    let mut links = 0;
    while let Some(part) = ahead.pop() {
        if part == "." {
            continue;
        }
        if part == ".." {
            at.pop();
            continue;
        }
        // The root itself replaces what it is pushed to.
        at.push(part);
        if let Ok(target) = at.read_link()
            && links < MAX_LINKS
        {
            links += 1;
            add(&at);
            at.pop();
            ahead.extend(parts_from_last(&target));
        }
    }
    add(&at);
    places
}

/// The first of the files that lies in `root` or is it, by the text of the paths or by what is on the disk.
pub(crate) fn inside<'f>(root: &Path, files: &'f [PathBuf]) -> Option<&'f PathBuf> {
    let roots = places(root);
    files.iter().find(|file| roots.iter().any(|root| file.starts_with(root)))
}

fn parts_from_last(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_plain_path_is_one_place_whether_it_exists_or_not() {
        assert_eq!(places(Path::new("/nonexistent/a/../b/./c")), [PathBuf::from("/nonexistent/b/c")]);
        assert_eq!(places(Path::new("")), Vec::<PathBuf>::new());
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(places(Path::new("absent")).last(), Some(&here.join("absent")));
    }

    #[test]
    fn every_link_on_the_way_is_a_place() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("dotfiles/helve")).unwrap();
        symlink("second", root.join("first")).unwrap();
        symlink(root.join("dotfiles"), root.join("second")).unwrap();
        symlink("../real.toml", root.join("dotfiles/helve/helve.toml")).unwrap();
        let expected =
            ["first/helve/helve.toml", "first", "second", "dotfiles/helve/helve.toml", "dotfiles/real.toml"];
        let expected = expected.map(|path| root.join(path));
        assert_eq!(places(&root.join("first/helve/helve.toml")), expected);
        assert_eq!(inside(&root.join("second"), &expected[3..]), Some(&expected[3]));
        assert_eq!(inside(&root.join("dotfiles/helve/x"), &expected), None);
    }

    #[test]
    fn links_that_go_round_end() {
        let directory = tempfile::tempdir().unwrap();
        symlink("loop", directory.path().join("loop")).unwrap();
        assert!(places(&directory.path().join("loop/x")).len() < MAX_LINKS);
    }
}
