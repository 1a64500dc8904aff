//! `read_file`: shows a file to a model, page by page.
//!
//! In comes a path and perhaps a place in the file; out goes what fits a page, where that stands in the file, and with
//! which arguments to go on. Text comes from the bridge as a window, so that the size of a file does not matter; what is
//! not text is shown as what it is: pictures as pictures, notebooks and PDFs as text, anything else as a description.
//!
//! How much a page holds: a fifth of the model's context window at four bytes a token where the owner said how large it
//! is, at least 4 KiB and at most the limit `read_bytes_max`; else the limit `read_bytes`. Lines scale with it.
//!
//! | module | does |
//! |---|---|
//! | `ask` | what is asked for, and how much of it a page holds |
//! | `facts` | the details |
//! | `text` | a window as text with its continuation |
//! | `near` | a path that is not there: other spellings, similar names |
//! | `binary` | the description of what is no text |
//! | `picture` | pictures, made small enough |
//! | `notebook`, `pdf` | documents as text, and `slice` for windows of that |
//!
//! Deliberately not here: opening anything, and encodings. Those are the bridge's.

mod ask;
mod binary;
mod facts;
mod near;
mod notebook;
mod pdf;
mod picture;
mod slice;
#[cfg(test)]
mod tests;
mod text;

use helve_core::files::{Files, Page, Shape};
use helve_core::typed::schema_of;
use helve_core::{
    Access, Content, Context, ErrorKind, Lane, Limits, Output, Resource, ToolError, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::FileDefaults;
use ask::Ask;
use facts::{Facts, Kind};

pub(crate) struct ReadFile {
    window_tokens: Option<u64>,
}

impl ReadFile {
    pub(crate) fn new(defaults: &FileDefaults) -> Self {
        ReadFile { window_tokens: defaults.model_context_window_tokens }
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The file, relative to the workspace.
    #[schemars(length(min = 1), extend("x-aliases" = ["file_path", "filePath", "file", "filename"]))]
    path: String,
    /// The first line to show, counted from 1; a negative number counts from the end, so -20 shows the last 20 lines.
    #[schemars(extend("x-aliases" = ["start_line", "startLine"]))]
    offset: Option<i64>,
    /// How many lines at the most; as many as fit if absent.
    #[schemars(range(min = 1), extend("x-aliases" = ["max_lines", "maxLines", "num_lines"], "x-clamp" = true))]
    limit: Option<u64>,
    /// How many characters of the first line to skip: the way through a line that is longer than a page.
    cursor: Option<u64>,
    /// Whether it is fine if the file does not exist.
    #[serde(default)]
    optional: bool,
    /// Whether each line starts with its number and a tab.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["lineNumbers", "show_line_numbers"]))]
    line_numbers: bool,
}

impl TypedTool for ReadFile {
    type Args = Args;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new(
            "read_file",
            "Reads a file of the workspace: text in any encoding page by page (each page says how to get the next one), \
             pictures as pictures, notebooks and PDFs as text; other files are described. Use it instead of cat, head \
             or tail.",
            parameters,
        )
        .title("Read a file")
        .aliases(&["read", "sandboxed_read"])
        .lane(Lane::Files)
        .read_only()
        .output_schema(schema_of::<Facts>())
    }

    fn access(&self, args: &Args) -> Access {
        Access { reads: vec![Resource::Path(args.path.clone())], ..Access::default() }
    }

    async fn run(&self, args: Args, ctx: &Context) -> Result<Output, ToolError> {
        let files = ctx.files()?;
        let ask = Ask::new(&args, self.window_tokens, ctx.limits())?;
        let (page, note) = match files.page(&ask.request(&args.path)).await {
            Ok(page) => (page, None),
            Err(error) if error.kind == ErrorKind::NotFound => {
                match elsewhere(files, &args, &ask, error).await? {
                    Found::Page(page, note) => (page, Some(note)),
                    Found::Nothing(output) => return Ok(output),
                }
            }
            Err(error) => return Err(error),
        };
        let mut output = show(page, &ask, files, ctx).await?;
        if let Some(note) = note {
            output.content.insert(0, Content::text(note));
        }
        Ok(output.as_page())
    }
}

/// What became of a path that is not there.
enum Found {
    /// The file under another spelling, and what to say about it.
    Page(Page, String),
    /// It need not be there.
    Nothing(Output),
}

async fn elsewhere(files: &dyn Files, args: &Args, ask: &Ask, error: ToolError) -> Result<Found, ToolError> {
    let near = near::look(files, &args.path).await;
    match near.same.as_slice() {
        [other] => {
            let page = files.page(&ask.request(other)).await?;
            return Ok(Found::Page(page, format!("[Resolved filename: {} -> {other}.]", args.path)));
        }
        [] => {}
        several => {
            let message = format!("The path {} is ambiguous: {}.", args.path, several.join(", "));
            return Err(
                ToolError::not_found(message).hint("Give one of these names exactly as it is written.")
            );
        }
    }
    if args.optional {
        let facts = Facts { optional: true, ..Facts::new(Kind::NotFound, &args.path) };
        let text = format!("Optional file not found: {}.", args.path);
        return Ok(Found::Nothing(Output::text(text).with_details(crate::details(&facts))));
    }
    let mut message = format!("File not found: {}.", args.path);
    if let Some(directory) = &near.missing_directory {
        message.push_str(&format!(" There is no directory {directory}."));
    }
    if !near.like.is_empty() {
        message.push_str(&format!(" Did you mean: {}?", near.like.join(", ")));
    }
    let hint = error.hint.unwrap_or_else(|| "Look with list_dir or glob for what is there.".to_owned());
    Err(ToolError::not_found(message).hint(hint))
}

async fn show(page: Page, ask: &Ask, files: &dyn Files, ctx: &Context) -> Result<Output, ToolError> {
    let limits = ctx.limits();
    let Shape::Binary { media_type, head } = &page.shape else {
        let is_notebook =
            page.path.to_lowercase().ends_with(".ipynb") && page.stat.len <= limits.notebook_bytes;
        return match is_notebook {
            true => document(page, ask, files, ctx, Kind::Notebook).await,
            false => Ok(text::output(&page, ask, Facts::of_text(&page))),
        };
    };
    match media_type.as_str() {
        "application/pdf" if page.stat.len <= limits.pdf_bytes => {
            document(page, ask, files, ctx, Kind::Pdf).await
        }
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" | "image/bmp"
            if page.stat.len <= limits.image_file_bytes =>
        {
            let content = files.read(&page.path, limits.image_file_bytes).await?;
            let bounds = picture::Bounds::new(limits);
            let shown = aside(move || picture::show(&content.bytes, &bounds)).await?;
            Ok(picture::output(&page, shown?))
        }
        _ => Ok(binary::output(&page, media_type, head)),
    }
}

/// A document as text, and of that the window that is asked for.
async fn document(
    page: Page,
    ask: &Ask,
    files: &dyn Files,
    ctx: &Context,
    kind: Kind,
) -> Result<Output, ToolError> {
    let limits: Limits = ctx.limits().clone();
    let most = if kind == Kind::Pdf { limits.pdf_bytes } else { limits.notebook_bytes };
    let content = files.read(&page.path, most).await?;
    let (ask_there, path, stat) = (ask.clone(), page.path.clone(), content.stat.clone());
    let cancel = ctx.cancelled().clone();
    let done = aside(move || {
        let text = match kind {
            Kind::Pdf => pdf::text(&content.bytes, &limits, &cancel)?,
            _ => notebook::text(&content.bytes, limits.document_text_bytes)?,
        };
        let request = ask_there.request(&path);
        Ok::<_, String>((slice::page(&text.text, path, stat, &request), text.parts, text.note))
    })
    .await?;
    match done {
        Ok((window, parts, note)) => {
            let facts = Facts { kind, parts: Some(parts), ..Facts::of_text(&window) };
            let mut output = text::output(&window, ask, facts);
            if let Some(note) = note {
                output.content.push(Content::text(note));
            }
            Ok(output)
        }
        // A notebook that is none is still text.
        Err(_) if kind == Kind::Notebook => Ok(text::output(&page, ask, Facts::of_text(&page))),
        Err(why) => {
            let Shape::Binary { media_type, head } = &page.shape else {
                return Err(ToolError::failed(format!("{} could not be read: {why}.", page.path)));
            };
            let mut output = binary::output(&page, media_type, head);
            output.content.push(Content::text(format!("[Its text could not be read: {why}.]")));
            Ok(output)
        }
    }
}

/// Does work that takes its time off the async threads. What goes wrong in a library stays there.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        ToolError::failed("The file could not be read: what reads such files failed on it.")
            .hint("The file is probably damaged. Inspect it with another program.")
    })
}

/// The text of a document.
struct Document {
    text: String,
    /// Pages, or cells.
    parts: u64,
    /// What is to be said about it.
    note: Option<String>,
}
