//! `read_output`: pages through, or searches, the kept output of an earlier call.
//!
//! In comes the name of a call or blob and a place; out goes one page of lines, where it stands in the whole, and how
//! to go on. A page is bounded by the limit `read_output_bytes` and by `limit` lines. [`lines`] streams the blob, so
//! that memory is bounded by a page and a chunk, whatever the blob's size or the length of its lines.
//!
//! What a blob's cap cut off is told by the blob itself, whose last line is a mark then.
//!
//! Every page goes forward: a line that is longer than a page is cut, and the next page starts inside it by bytes.
//!
//! Deliberately not here: which calls may be read. The store behind `blobs()` knows that.

mod grep;
mod lines;
mod page;

use helve_core::typed::schema_of;
use helve_core::{BlobRef, Context, Output, ToolError, ToolSpec, Truncated, TypedTool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use lines::{Lines, Start};

pub(crate) struct ReadOutput;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// Which output: the call id from the truncated result (c_...) or a blob id (b3:...).
    #[schemars(length(min = 1, max = 200), extend("x-aliases" = ["id", "call_id", "blob"]))]
    call: String,
    /// The first line, counted from 1.
    #[serde(default = "default_offset")]
    #[schemars(range(min = 1), extend("x-clamp" = true))]
    offset: u64,
    /// How many lines; with grep, how many matching lines.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 5_000), extend("x-clamp" = true))]
    limit: u64,
    /// Start at this byte instead of at a line; for lines that are longer than a page.
    byte_offset: Option<u64>,
    /// Show only lines that match this regular expression; (?i) at its start ignores case.
    #[schemars(length(max = 1_000), extend("x-aliases" = ["pattern"]))]
    grep: Option<String>,
    /// With grep: lines to show before and after each match.
    #[serde(default)]
    #[schemars(range(min = 0, max = 20), extend("x-clamp" = true))]
    context: u8,
}

fn default_offset() -> u64 {
    1
}

fn default_limit() -> u64 {
    200
}

/// What the details say.
#[derive(Default, Serialize, JsonSchema)]
struct Facts {
    /// The blob's id.
    blob: String,
    /// Bytes of the blob.
    bytes: u64,
    /// Lines of the blob, if they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<u64>,
    /// The first line that is shown; absent when the page starts at a byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_line: Option<u64>,
    /// The last line that is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_line: Option<u64>,
    /// With grep: matches that are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    matches: Option<u64>,
    /// The offset of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// The byte at which the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_byte_offset: Option<u64>,
}

/// One page, before it becomes an output.
struct Page {
    text: String,
    /// Bytes of the blob that it shows.
    shown: u64,
    facts: Facts,
}

impl TypedTool for ReadOutput {
    type Args = Args;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new(
            "read_output",
            "Reads the whole output of an earlier call whose result was cut: page through it by lines, or search it with \
             grep. Each page says how to get the next one. Use grep first when you know what you look for.",
            parameters,
        )
        .title("Read an earlier output")
        .read_only()
        .output_schema(schema_of::<Facts>())
    }

    async fn run(&self, args: Args, ctx: &Context) -> Result<Output, ToolError> {
        let pattern = args.grep.as_deref().map(grep::compile).transpose()?;
        let blobs = ctx.blobs()?;
        let blob = blobs.find(args.call.trim()).await?;
        let start = match args.byte_offset {
            Some(byte) => Start::Byte(byte),
            None => Start::Line(args.offset.max(1)),
        };
        // Room for a few lines, whatever the owner has set.
        let budget = usize::try_from(ctx.limits().read_output_bytes).unwrap_or(usize::MAX).max(256);
        // A search looks at more of a line at once than a page could show.
        let longest = if pattern.is_some() { usize::MAX } else { budget };
        let lines = Lines::open(blobs, &blob, start, longest, ctx.cancelled()).await?;
        let mut page = match pattern {
            Some(pattern) => {
                grep::page(lines, &pattern, args.limit.max(1), usize::from(args.context), budget).await?
            }
            None => page::page(lines, args.limit.max(1), budget).await?,
        };
        page.facts.blob.clone_from(&blob.id);
        page.facts.bytes = blob.bytes;
        Ok(output(page, blob))
    }
}

fn output(page: Page, blob: BlobRef) -> Output {
    let mut output = Output::text(page.text).with_details(crate::details(&page.facts));
    // The page is already cut to its own limit, and the rest of it is where it came from.
    output.truncated = Some(Truncated {
        bytes: blob.bytes.saturating_sub(page.shown),
        chars: 0,
        blob: Some(blob.id),
        blob_dropped: blob.dropped,
    });
    output
}

#[cfg(test)]
mod tests;
