//! Limits of the file tools that nobody sets: what they bound is the same for every policy. The code takes them from here,
//! and the manual shows them below the others.

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedLimit {
    /// What is bounded.
    pub what: &'static str,
    /// The bound.
    pub value: u64,
    /// What is counted.
    pub unit: &'static str,
    /// What happens at it.
    pub at_limit: &'static str,
}

macro_rules! fixed {
    ($($(#[doc = $doc:literal])+ $name:ident = $value:expr, $what:literal, $unit:literal, $at:literal;)+) => {
        $($(#[doc = $doc])+ pub const $name: usize = $value;)+

        /// Every such limit, in the order of the manual.
        pub const TABLE: &[FixedLimit] = &[
            $(FixedLimit { what: $what, value: $name as u64, unit: $unit, at_limit: $at },)+
        ];
    };
}

fixed! {
    /// How many edits one call may make.
    EDITS = 100, "one call of `edit_file`, or `apply_patch` with edits", "edits", "the call is refused and nothing changes";
    /// How many files and directories one call may change.
    CHANGES = 10_000, "one call that changes files", "paths", "the call is refused (too_large) and nothing changes";
    /// How long a file is that a call may change: all of it is read, and kept to be put back.
    CHANGED_FILE = 8 << 30, "a file that a call replaces, removes or adds to", "bytes", "the call is refused (too_large) and nothing changes";
    /// How many files and directories a command may change in a layer.
    LAYER_CHANGES = 100_000, "one command over a layer", "paths", "the call is refused (too_large) and nothing changes";
    /// How many files and directories of a workspace are looked at for other names of a file.
    LINK_ENTRIES = 200_000, "looking for other names of files that a command over a layer changed", "entries", "the other names keep what they held, and the result says so";
    /// How many extended attributes of one path are taken over.
    ATTRIBUTES = 100, "extended attributes of one path in a layer", "attributes", "they are left as they were, and the result says so";
    /// How large they are.
    ATTRIBUTE_BYTES = 64 << 10, "the same in bytes, names and values", "bytes", "they are left as they were, and the result says so";
    /// How large those of all paths are.
    LAYER_ATTRIBUTE_BYTES = 16 << 20, "extended attributes that one command over a layer changes", "bytes", "the call is refused (too_large) and nothing changes";
    /// How many comparisons of lines a patch may cost in one file.
    PATCH_WORK = 200_000_000, "finding the hunks of a patch in one file", "comparisons", "the hunk is refused as too much work";
    /// How many places of one hunk are looked at.
    PATCH_PLACES = 100_000, "places of one hunk in a file", "places", "the hunk is refused as too much work";
    /// How long a line is whose typography is forgiven.
    FOLDED_LINE = 4 << 20, "a line whose typography is forgiven in an edit or a patch", "bytes", "a longer one is compared as it is";
    /// How much of what differs is compared for a diff.
    DIFF_BYTES = 1 << 20, "what differs between two versions that are compared", "bytes", "the diff is left out, the change is made";
    /// How many lines of it.
    DIFF_LINES = 20_000, "the same in lines", "lines", "the diff is left out, the change is made";
    /// How long a diff is that an answer holds.
    DIFF_TEXT = 64 << 10, "a diff in an answer", "bytes", "a longer one is left out, the change is made";
    /// How long a path may be.
    PATH = 4_096, "a path", "bytes", "the call is refused (invalid_params)";
    /// How many links a path may lead through.
    LINKS = 40, "links in one path", "links", "the call is refused (blocked)";
    /// How many entries one call of `list_dir` gives.
    LIST_ENTRIES = 5_000, "`limit` of `list_dir`", "entries", "a larger one is clamped; the page ends with how to go on";
    /// How deep `list_dir` goes.
    LIST_DEPTH = 100, "`depth` of `list_dir`", "levels", "a larger one is clamped";
    /// How many paths one call of `glob` gives.
    GLOB_PATHS = 10_000, "`limit` of `glob`", "paths", "a larger one is clamped; the page ends with how to go on";
    /// How many matches one call of `grep` gives.
    GREP_MATCHES = 5_000, "`limit` of `grep`", "lines or files", "a larger one is clamped; the page ends with how to go on";
    /// How many lines around a match.
    GREP_CONTEXT = 100, "lines that `grep` shows on each side of a match", "lines", "a larger number is clamped";
    /// How many matches can be left out.
    GREP_SKIP = 100_000, "`skip` of `grep`", "lines or files", "a larger one is clamped";
    /// How long a pattern may be.
    GREP_PATTERN = 10_000, "the pattern of `grep`", "characters", "the call is refused (invalid_params)";
    /// How much memory a compiled pattern may take.
    GREP_COMPILED = 8 << 20, "a compiled pattern of `grep`", "bytes", "the call is refused (invalid_params)";
    /// How much of an ignore file is read.
    IGNORE_BYTES = 256 << 10, "one .gitignore or .ignore file", "bytes", "patterns behind them do not hold";
    /// How many patterns hold at one time, those of the directories above included.
    IGNORE_PATTERNS = 4_096, "patterns of the .gitignore and .ignore files of a directory and those above it", "patterns", "those behind them do not hold";
    /// How many names of a directory are looked at for a name that is not there.
    NEAR_NAMES = 5_000, "names that are looked at for \"did you mean\"", "names", "others are not suggested";
    /// How many pages of a PDF are read.
    PDF_PAGES = 10_000, "pages of a PDF", "pages", "the text ends there";
}

#[cfg(test)]
mod tests {
    use super::TABLE;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_says_something_of_its_own() {
        let whats: BTreeSet<&str> = TABLE.iter().map(|row| row.what).collect();
        assert_eq!(whats.len(), TABLE.len());
        assert!(TABLE.iter().all(|row| row.value > 0 && !row.unit.is_empty() && !row.at_limit.is_empty()));
    }
}
