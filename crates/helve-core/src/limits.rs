//! Every limit: its name, its default, and what happens at it. The manual's table is made from this one.
//!
//! The owner's policy may lower or raise each of them (`[limits]`); no argument of any tool can. Those that nobody sets are
//! in [`fixed`].

pub mod fixed;

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitInfo {
    /// The key under `[limits]`.
    pub name: &'static str,
    /// The default.
    pub default: u64,
    /// What is counted.
    pub unit: &'static str,
    /// What happens at it.
    pub at_limit: &'static str,
}

macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $name:ident = $default:expr, $unit:literal, $at:literal;)+) => {
        /// The limits in force.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Limits {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Default for Limits {
            fn default() -> Self {
                Limits { $($name: $default,)+ }
            }
        }

        impl Limits {
            /// Every limit, in the order of the manual.
            pub const TABLE: &'static [LimitInfo] = &[
                $(LimitInfo { name: stringify!($name), default: $default, unit: $unit, at_limit: $at },)+
            ];

            /// The value of a limit by its name.
            pub fn get(&self, name: &str) -> Option<u64> {
                match name {
                    $(stringify!($name) => Some(self.$name),)+
                    _ => None,
                }
            }

            /// Sets a limit by its name; false if there is none of that name.
            pub fn set(&mut self, name: &str, value: u64) -> bool {
                match name {
                    $(stringify!($name) => self.$name = value,)+
                    _ => return false,
                }
                true
            }
        }
    };
}

limits! {
    /// How much text of one result a model sees.
    output_chars = 10_000, "characters", "head and tail are kept, the count of the rest is given, the whole is kept as a blob";
    /// How much text of one result a model sees where the tool gives it page by page: files, listings, matches.
    page_chars = 1 << 20, "characters", "head and tail are kept, the count of the rest is given, the whole is kept as a blob";
    /// How much of one result a blob keeps.
    blob_bytes = 64 << 20, "bytes", "the blob ends with a mark, the count of the rest is given";
    /// How much all blobs together may take after `helve gc`.
    blob_store_bytes = 1 << 30, "bytes", "`helve gc` removes the oldest";
    /// How large the arguments of one call may be.
    args_bytes = 4 << 20, "bytes", "the call is refused (too_large)";
    /// How deep the arguments of one call may nest.
    args_depth = 64, "levels", "the call is refused (invalid_params)";
    /// How many calls one batch may hold.
    batch_calls = 256, "calls", "a line of `helve batch` with more is refused whole, in the library the calls beyond it are (too_large)";
    /// How large the details of one result may be.
    details_bytes = 256 << 10, "bytes", "they are left out, with a note";
    /// How large one picture of a result may be.
    image_bytes = 8 << 20, "bytes", "it is left out, with a note";
    /// How much of an outside service's unshaped answer the journal keeps.
    raw_bytes = 1 << 20, "bytes", "the rest is cut off";
    /// How long a line of `helve batch` may be.
    batch_line_bytes = 8 << 20, "bytes", "the line is refused and skipped";
    /// How many calls run at once.
    workers = 8, "calls", "further calls wait";
    /// How long a command may be.
    command_bytes = 64 << 10, "bytes", "the call is refused (too_large)";
    /// How long a command may run when the call does not say.
    exec_timeout_default = 60, "seconds", "the whole process tree is ended (timeout)";
    /// How long a command may run at the most.
    exec_timeout_max = 600, "seconds", "a larger timeout is clamped to it";
    /// How long any other tool may run.
    tool_timeout = 60, "seconds", "the tool is ended (timeout)";
    /// How many files a command may have open at once.
    exec_open_files = 4096, "descriptors", "opening another fails inside the command";
    /// How large a file that a command writes may grow.
    exec_file_bytes = 8 << 30, "bytes", "writing further fails inside the command";
    /// How much memory the processes of a command may take together, its `/tmp` included.
    exec_memory_bytes = 4 << 30, "bytes", "the command is ended";
    /// How many processes and threads a command may have at a time.
    exec_processes = 1024, "processes", "the command is ended";
    /// How much processor time the processes of a command may take together.
    exec_cpu_seconds = 1800, "seconds", "the command is ended";
    /// By how much the free space of the disk may fall while a command runs.
    exec_disk_bytes = 8 << 30, "bytes", "the command is ended";
    /// How much a command may keep in `/tmp` and its other private directories.
    exec_tmp_bytes = 1 << 30, "bytes", "writing further fails inside the command";
    /// How much a command may change in the workspace where it runs over a layer: for a preview, or with checkpoints.
    exec_layer_bytes = 1 << 30, "bytes", "the command is ended and the workspace stays as it is";
    /// How many questions a minute a person is asked about the calls of one caller.
    prompts_per_minute = 10, "questions", "further calls that would ask are refused (approval_required)";
    /// How large a file may be that a tool holds in memory: to edit it, to patch it, to write it.
    file_bytes = 64 << 20, "bytes", "the call is refused (too_large); `read_file` reads larger files page by page";
    /// How much of a file one call of `read_file` gives where the model's context window is not known.
    read_bytes = 50 << 10, "bytes", "the page ends before the next line, with the offset at which to go on";
    /// How much of a file one call of `read_file` gives at the most, however large the context window is.
    read_bytes_max = 512 << 10, "bytes", "the page ends before the next line, with the offset at which to go on";
    /// How many lines a page of `read_bytes` has at the most; a larger page has more.
    read_lines = 2_000, "lines", "the page ends, with the offset at which to go on";
    /// How large the file of a picture may be that `read_file` shows.
    image_file_bytes = 32 << 20, "bytes", "the file is described, not shown";
    /// How many pixels a picture may have that `read_file` decodes.
    image_pixels = 40_000_000, "pixels", "the call is refused before anything is decoded (too_large)";
    /// How long a side of a picture is that `read_file` gives.
    image_side = 2_000, "pixels", "the picture is made smaller, with its scale told";
    /// How large a picture is that `read_file` gives, in base64.
    image_base64_bytes = 4_718_592, "bytes", "the picture is compressed further and made smaller, then left out with a note";
    /// How large a notebook may be that `read_file` shows cell by cell.
    notebook_bytes = 16 << 20, "bytes", "the file is shown as the JSON that it is";
    /// How large a PDF may be whose text `read_file` reads.
    pdf_bytes = 32 << 20, "bytes", "the file is described, not read";
    /// How many bytes the streams of a PDF may unpack to, all together.
    pdf_unpacked_bytes = 64 << 20, "bytes", "the text ends there, with a note";
    /// How many bytes of text are taken from a PDF or a notebook.
    document_text_bytes = 8 << 20, "bytes", "the text ends there, with a note";
    /// How much one call may leave to be undone.
    undo_bytes = 256 << 20, "bytes", "the call happens, and a note says which files cannot be put back";
    /// How much all that can be undone may take together.
    undo_store_bytes = 1 << 30, "bytes", "the oldest calls cannot be undone any more";
    /// How much is kept of what an MCP server writes to standard error and of what happens to it.
    mcp_log_bytes = 1 << 20, "bytes", "the older half is dropped";
    /// How much text one call of `list_dir`, `glob` or `grep` gives.
    search_bytes = 50 << 10, "bytes", "the answer ends before the next line, with how to go on";
    /// How long a line is that `grep` gives.
    search_line_chars = 500, "characters", "the line is cut around the match, with the count of the rest on both sides";
    /// How much one call of `read_output` gives at the most.
    read_output_bytes = 8 << 10, "bytes", "a larger page is clamped to it";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_read_and_set() {
        let mut limits = Limits::default();
        for (i, row) in Limits::TABLE.iter().enumerate() {
            assert_eq!(limits.get(row.name), Some(row.default));
            assert!(limits.set(row.name, i as u64));
            assert_eq!(limits.get(row.name), Some(i as u64));
        }
        assert!(!limits.set("no_such_limit", 1));
    }
}
