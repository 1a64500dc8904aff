//! Programs that only read: one list for runs without a sandbox and for the built-in profiles.
//!
//! Each is known well enough that an option with which it does more is seen as such. Not here: whether one run of such a
//! program only reads.

/// Programs that only read, or only start what is listed by itself.
const PROGRAMS: &str = "
    awk b2sum basename cal cat cksum cmp column comm cut date df diff dirname du echo egrep env expand expr factor false
    fd fgrep file find fmt fold free gawk grep groups head hexdump hostname id join jq ls lsblk mawk md5sum nice nl nproc
    od paste pgrep printenv printf ps pwd readlink realpath rev rg sed seq sha1sum sha256sum sha512sum shuf sleep sort
    stat stdbuf strings sum tac tail test timeout tr tree true uname unexpand uniq uptime wc whereis which who whoami
    xargs xxd zcat zgrep";

/// Subcommands of git that only read.
const GIT: &str = "
    blame cat-file check-ignore cherry count-objects describe diff diff-tree for-each-ref grep log ls-files ls-tree
    merge-base name-rev rev-list rev-parse shortlog show show-ref status version whatchanged";

/// How a built-in profile names the patterns of all of them.
const PLACEHOLDER: &str = "\"@readers\"";

/// Whether a program only reads.
pub(crate) fn is_reader(program: &str) -> bool {
    PROGRAMS.split_whitespace().any(|known| known == program)
}

/// Whether a subcommand of git only reads.
pub(crate) fn is_git_reader(subcommand: &str) -> bool {
    GIT.split_whitespace().any(|known| known == subcommand)
}

/// The text of a built-in profile with the patterns of all readers in it.
pub(crate) fn fill_in(profile: &str) -> String {
    let join = |names: &str| names.split_whitespace().collect::<Vec<_>>().join(",");
    profile.replace(PLACEHOLDER, &format!("\"{{{}}} *\", \"git {{{}}} *\"", join(PROGRAMS), join(GIT)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use helve_shell::analysis::Setting;
    use helve_shell::tree::Dialect;

    use super::*;

    /// A program that nobody knows could do anything with an option that nobody knows.
    #[test]
    fn every_reader_is_a_program_that_is_understood() {
        let workspace = Path::new("/w");
        let setting = Setting { dialect: Dialect::Posix, directory: workspace, workspace, home: None };
        let commands = PROGRAMS.split_whitespace().map(str::to_owned);
        for command in commands.chain(GIT.split_whitespace().map(|name| format!("git {name}"))) {
            let analysis = helve_shell::analyze(&format!("{command} x"), &setting);
            let known = analysis.runs.first().is_some_and(|run| run.understood);
            assert!(known, "{command}: {analysis:?}");
        }
    }
}
