//! A page at the end of a file of 1 GB beside one `pread` of the same bytes.
//!
//! The promise is about the handle that tools use: what it adds to the read itself. It is taken many times in one call.
//! The whole call of `read_file`, with its record, is shown as information.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;

use helve::files::{PageRequest, PageStart};
use helve::{Context, Lane, Output, ToolError, ToolSpec, TypedTool};
use serde_json::{Value, json};

use super::{Asked, Library, Measured, Place};
use crate::report::{Promise, Row};
use crate::sample::in_turns;

/// Bytes of a line, of which the page has as many as fit.
const LINE: usize = 64;
const PAGE: usize = 50 << 10;
const LINES: u64 = (PAGE / LINE) as u64;
const FILE: u64 = 1 << 30;
/// Pages of one call.
const PAGES: u32 = 100;

/// A tool that takes the last page of the file `large` many times.
pub(super) struct LastPages;

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(super) struct NoArgs {}

impl TypedTool for LastPages {
    type Args = NoArgs;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new("last_pages", "Takes the last page many times.", parameters)
            .lane(Lane::Files)
            .read_only()
    }

    async fn run(&self, _: NoArgs, ctx: &Context) -> Result<Output, ToolError> {
        let request = PageRequest {
            path: "large".to_owned(),
            start: PageStart::FromEnd { lines: LINES },
            max_lines: LINES,
            max_bytes: PAGE as u64,
        };
        let mut bytes = 0;
        for _ in 0..PAGES {
            bytes += ctx.files()?.page(&request).await?.text.len();
        }
        Ok(Output::text("").with_details(json!({"bytes": bytes})))
    }
}

pub(super) fn measure(asked: &Asked<'_>) -> Measured<Vec<Row>> {
    let place = Place::new()?;
    let workspace = place.workspace();
    let path = workspace.join("large");
    let mut file = File::create(&path)?;
    let lines = [[b'x'; LINE - 1].as_slice(), b"\n"].concat().repeat((16 << 20) / LINE);
    for _ in 0..FILE / lines.len() as u64 {
        file.write_all(&lines)?;
    }
    let file = File::open(&path)?;
    let plain = |times: u32| -> Measured<()> {
        for _ in 0..times {
            let mut page = vec![0; PAGE];
            file.read_exact_at(&mut page, FILE - PAGE as u64)?;
            std::hint::black_box(&page);
        }
        Ok(())
    };
    let library = Library::new(&workspace, &place.root.path().join("state"))?;
    let pages = || -> Measured<()> {
        let found = library.call("last_pages", &json!({}))?.details["bytes"].as_u64();
        // The last line's end is not shown.
        let whole = (PAGE as u64 - 1) * u64::from(PAGES);
        if found == Some(whole) { Ok(()) } else { Err("the page is not the end of the file".into()) }
    };
    let args = json!({"path": "large", "offset": -i64::try_from(LINES)?});
    let call = || library.call("read_file", &args).map(drop);
    let rounds = if asked.quick { 5 } else { 25 };
    let row = |name: &'static str, pair: crate::sample::Pair, promise| Row {
        name: name.into(),
        subject: pair.subject,
        reference: Some(("pread of the page", pair.reference)),
        promise,
        mib: None,
    };
    Ok(vec![
        row(
            "a page at the end of 1 GB",
            in_turns(rounds, PAGES, pages, || plain(PAGES))?,
            Promise::Ratio(20.0),
        ),
        row(
            "read_file at the end of 1 GB, the whole call",
            in_turns(rounds, 1, call, || plain(1))?,
            Promise::None,
        ),
    ])
}
