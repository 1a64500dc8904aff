//! What a session remembers, as resources of MCP: its journal and the outputs that were too long to show.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use helve_core::harmless::Harmless;
use helve_core::{EmbeddedResource, ErrorKind, ToolError};
use helve_store::{Blobs, CallRow, Filter, Home, Index, StoreError, Tail};
use serde_json::{Value, json};

pub(super) const MANUAL: &str = "helve://manual";
/// How the addresses of servers' resources begin.
pub(super) const OF_SERVERS: &str = "helve://mcp/";
pub(super) const JOURNAL: &str = "helve://journal";
const BLOB: &str = "helve://blob/";
/// So much of a journal or of an output is one page.
const PAGE_BYTES: usize = 256 << 10;
/// So many calls are looked at for their outputs, the newest first.
const MOST_CALLS: u64 = 10_000;
/// So many outputs are listed.
const MOST_LISTED: usize = 1_000;
/// Where a page says that there is more, and where.
const NEXT: &str = "helve/next";
const TOTAL: &str = "helve/bytes";

/// What one session remembers.
pub(super) struct Resources {
    pub(super) home: PathBuf,
    pub(super) session: String,
}

/// The patterns of addresses.
pub(super) fn templates() -> Vec<Value> {
    vec![
        json!({"uriTemplate": "helve://blob/{id}/{offset}", "name": "blob",
            "title": "An output from a byte on", "mimeType": "text/plain"}),
        json!({"uriTemplate": "helve://journal/{offset}", "name": "journal",
            "title": "The journal from a place on", "mimeType": "application/jsonl"}),
    ]
}

/// A resource of text.
pub(super) fn text(uri: &str, mime_type: &str, text: String) -> EmbeddedResource {
    let (uri, mime_type) = (uri.to_owned(), Some(mime_type.to_owned()));
    EmbeddedResource { uri, mime_type, text: Some(text), blob: None, meta: None }
}

impl Resources {
    pub(super) fn list(&self) -> Result<Vec<Value>, ToolError> {
        let mut listed = vec![
            json!({"uri": MANUAL, "name": "manual", "title": "Manual of the tools",
                "description": "What each tool does, its limits, and how to plan work with them.",
                "mimeType": "text/markdown"}),
            json!({"uri": JOURNAL, "name": "journal", "title": "Journal of this session",
                "description": "What was called, what was decided and what came out, one entry a line.",
                "mimeType": "application/jsonl"}),
        ];
        let mut seen = std::collections::BTreeSet::new();
        for row in self.calls(None)? {
            let Some(blob) = row.blob.filter(|blob| seen.insert(blob.clone())) else { continue };
            let tool = row.tool.unwrap_or_default();
            listed.push(json!({"uri": format!("{BLOB}{blob}"), "name": row.call,
                "title": format!("Output of {tool} {}", row.call), "mimeType": "text/plain"}));
            if seen.len() >= MOST_LISTED {
                break;
            }
        }
        Ok(listed)
    }

    pub(super) fn read(&self, uri: &str) -> Result<EmbeddedResource, ToolError> {
        let unknown = || {
            let shown: String = uri.chars().take(200).collect();
            ToolError::not_found(format!("There is no resource '{shown}'."))
        };
        if let Some(rest) = uri.strip_prefix(JOURNAL) {
            let offset = if rest.is_empty() { Some(0) } else { rest.strip_prefix('/').and_then(number) };
            return self.journal(uri, offset.ok_or_else(unknown)?);
        }
        let rest = uri.strip_prefix(BLOB).ok_or_else(unknown)?;
        let (id, offset) = match rest.split_once('/') {
            Some((id, offset)) => (id, number(offset).ok_or_else(unknown)?),
            None => (rest, 0),
        };
        // An output of another session is none of this client's business.
        if self.calls(Some(id))?.is_empty() {
            return Err(unknown());
        }
        self.blob(uri, id, offset)
    }

    /// The calls of the session, or those of them whose output is this one; the newest first.
    fn calls(&self, blob: Option<&str>) -> Result<Vec<CallRow>, ToolError> {
        if !self.home.exists() {
            return Ok(Vec::new());
        }
        let filter = Filter {
            session: Some(self.session.clone()),
            blob: blob.map(str::to_owned),
            limit: Some(MOST_CALLS),
            newest_first: true,
            ..Filter::default()
        };
        let home = Home::open(&self.home).map_err(unread)?;
        let mut index = Index::open(&home).map_err(unread)?;
        index.sync().map_err(unread)?;
        index.query(&filter).map_err(unread)
    }

    fn journal(&self, uri: &str, offset: u64) -> Result<EmbeddedResource, ToolError> {
        let mut page = String::new();
        let mut next = None;
        let sessions = match self.home.exists() {
            true => Home::open(&self.home).and_then(|home| Ok((home.sessions()?, home))).map(Some),
            false => Ok(None),
        };
        if let Some((sessions, home)) = sessions.map_err(unread)?
            && sessions.contains(&self.session)
        {
            let mut tail = Tail::open(&home, &self.session, offset).map_err(unread)?;
            while let Some(record) = tail.next_record().map_err(unread)? {
                page.push_str(&json!(record).to_string());
                page.push('\n');
                if page.len() >= PAGE_BYTES {
                    next = Some(tail.offset());
                    break;
                }
            }
        }
        let mut resource = text(uri, "application/jsonl", page);
        resource.meta = next.map(|next| json!({NEXT: format!("{JOURNAL}/{next}")}));
        Ok(resource)
    }

    fn blob(&self, uri: &str, id: &str, offset: u64) -> Result<EmbeddedResource, ToolError> {
        let gone =
            |error: StoreError| ToolError::not_found(format!("The output is not kept any more: {error}"));
        let home = Home::open(&self.home).map_err(unread)?;
        let blobs = Blobs::open(&home, u64::MAX).map_err(unread)?;
        let total = blobs.len(id).map_err(gone)?;
        let mut bytes = blobs.read_range(id, offset, PAGE_BYTES).map_err(gone)?;
        let read = offset.saturating_add(bytes.len() as u64);
        // A page of text ends with a whole character; what is no text stays as it is.
        let is_text = match std::str::from_utf8(&bytes) {
            Ok(_) => true,
            Err(error) if error.error_len().is_none() && read < total => {
                bytes.truncate(error.valid_up_to());
                true
            }
            Err(_) => false,
        };
        let next = offset.saturating_add(bytes.len() as u64);
        let mut meta = json!({TOTAL: total});
        if next < total && !bytes.is_empty() {
            meta[NEXT] = json!(format!("{BLOB}{id}/{next}"));
        }
        let mut resource = if is_text {
            let mut clean = String::with_capacity(bytes.len());
            let mut stream = Harmless::default();
            stream.push(&bytes, &mut |part| clean.push_str(part));
            stream.finish(&mut |part| clean.push_str(part));
            text(uri, "text/plain", clean)
        } else {
            let blob = Some(STANDARD.encode(&bytes));
            let mime_type = Some("application/octet-stream".to_owned());
            EmbeddedResource { uri: uri.to_owned(), mime_type, text: None, blob, meta: None }
        };
        resource.meta = Some(meta);
        Ok(resource)
    }
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn unread(error: StoreError) -> ToolError {
    ToolError::new(ErrorKind::Internal, format!("What the session remembers cannot be read: {error}"))
}
