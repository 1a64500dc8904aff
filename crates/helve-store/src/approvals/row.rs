//! One approval, and its form in the table.

use std::fmt;

use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};

use super::{failed, optional};
use crate::StoreError;

/// The longest text of any column.
const MAX_BYTES: usize = 64 << 10;

/// Where an approval holds. In the table and in JSON it is `session:NAME`, `workspace:PATH` or `user`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalScope {
    /// In the session of this name.
    Session(String),
    /// In the workspace at this absolute path.
    Workspace(String),
    /// Everywhere.
    User,
}

impl fmt::Display for ApprovalScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApprovalScope::Session(name) => write!(f, "session:{name}"),
            ApprovalScope::Workspace(path) => write!(f, "workspace:{path}"),
            ApprovalScope::User => f.write_str("user"),
        }
    }
}

impl Serialize for ApprovalScope {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl ApprovalScope {
    fn parse(text: &str) -> Option<ApprovalScope> {
        match text.split_once(':') {
            Some(("session", name)) => Some(ApprovalScope::Session(name.to_owned())),
            Some(("workspace", path)) => Some(ApprovalScope::Workspace(path.to_owned())),
            None if text == "user" => Some(ApprovalScope::User),
            _ => None,
        }
    }
}

/// What is around a command when it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Within {
    /// A sandbox that contains it.
    Sandbox,
    /// A wrapper of the owner's.
    Wrapper,
    /// Nothing.
    Nothing,
}

impl Within {
    /// Its form in the table and in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Within::Sandbox => "sandbox",
            Within::Wrapper => "wrapper",
            Within::Nothing => "nothing",
        }
    }

    fn parse(text: &str) -> Option<Within> {
        [Within::Sandbox, Within::Wrapper, Within::Nothing].into_iter().find(|one| one.name() == text)
    }
}

/// A script or a task file that an approval is bound to: with other content it does not hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BoundScript {
    /// The path below the workspace.
    pub path: String,
    /// The BLAKE3 hash of the content, in hexadecimal.
    pub hash: String,
}

/// An approval that is to be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewApproval {
    /// The command pattern, or an argv as a shell reads it.
    pub pattern: String,
    /// The tool.
    pub tool: String,
    /// Who may use it: the caller that was asked about.
    pub caller: String,
    /// The rule that asked; what another rule asks about is another question.
    pub rule: String,
    /// Why it asked, in its own words.
    pub reason: String,
    /// What was around the command.
    pub within: Within,
    /// Where it holds.
    pub scope: ApprovalScope,
    /// The directory that it is bound to: where the command runs, not where the shell starts.
    pub cwd: String,
    /// The files that it is bound to, sorted by path.
    pub scripts: Vec<BoundScript>,
    /// When it ends, in microseconds since 1970 UTC; none for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_us: Option<u64>,
    /// Who gave it: `terminal`, or the name of a broker.
    pub created_by: String,
    /// The call that was asked about.
    pub call: String,
    /// The hash of what was shown.
    pub shown: String,
}

/// An approval as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredApproval {
    /// Its name: `a_` and 10 letters or digits.
    pub id: String,
    /// What was granted.
    #[serde(flatten)]
    pub granted: NewApproval,
    /// When it was given, in microseconds since 1970 UTC.
    pub created_at_us: u64,
    /// When a call last went ahead on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at_us: Option<u64>,
    /// How many calls went ahead on it.
    pub uses: u64,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at_us: Option<u64>,
}

/// The scripts as one column. Refuses what is too long to be meant.
pub(super) fn scripts_text(scripts: &[BoundScript]) -> Result<String, StoreError> {
    let text = serde_json::to_string(scripts).map_err(|error| StoreError::NotJson(error.to_string()))?;
    if text.len() > MAX_BYTES {
        return Err(StoreError::TooLarge { bytes: text.len(), limit: MAX_BYTES });
    }
    Ok(text)
}

/// A count as SQLite keeps it.
pub(super) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn get(database: &Connection, id: &str) -> Result<Option<StoredApproval>, StoreError> {
    let query = format!("{COLUMNS} WHERE id = ?1");
    optional(database.query_row(&query, [id], read)).map(Option::flatten)
}

/// The rows of a query. A row that makes no sense is passed over: it allows nothing.
pub(super) fn select(
    database: &Connection,
    query: &str,
    parameters: impl rusqlite::Params,
) -> Result<Vec<StoredApproval>, StoreError> {
    let mut statement = database.prepare(&format!("{COLUMNS} {query}")).map_err(failed)?;
    let rows = statement.query_map(parameters, read).map_err(failed)?;
    let mut found = Vec::new();
    for row in rows {
        found.extend(row.map_err(failed)?);
    }
    Ok(found)
}

const COLUMNS: &str = "SELECT id, pattern, tool, caller, rule, reason, within, scope, cwd, scripts, expires_at, \
                       created_by, call, shown, created_at, last_used_at, uses, revoked_at FROM approvals";

fn read(row: &Row<'_>) -> rusqlite::Result<Option<StoredApproval>> {
    let count = |at: usize| -> rusqlite::Result<Option<u64>> {
        Ok(row.get::<_, Option<i64>>(at)?.map(|number| u64::try_from(number).unwrap_or_default()))
    };
    let (scope, scripts): (String, String) = (row.get(7)?, row.get(9)?);
    let within = Within::parse(&row.get::<_, String>(6)?);
    let (Some(scope), Some(within), Ok(scripts)) =
        (ApprovalScope::parse(&scope), within, serde_json::from_str(&scripts))
    else {
        return Ok(None);
    };
    let granted = NewApproval {
        pattern: row.get(1)?,
        tool: row.get(2)?,
        caller: row.get(3)?,
        rule: row.get(4)?,
        reason: row.get(5)?,
        within,
        scope,
        cwd: row.get(8)?,
        scripts,
        expires_at_us: count(10)?,
        created_by: row.get(11)?,
        call: row.get(12)?,
        shown: row.get(13)?,
    };
    Ok(Some(StoredApproval {
        id: row.get(0)?,
        granted,
        created_at_us: count(14)?.unwrap_or_default(),
        last_used_at_us: count(15)?,
        uses: count(16)?.unwrap_or_default(),
        revoked_at_us: count(17)?,
    }))
}
