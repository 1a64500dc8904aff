//! What the owner allowed for longer than one call: command patterns with where they came from, where they hold and what
//! they are bound to.
//!
//! In: a grant that the runtime has checked. Out: the rows that hold in a scope now, and a use that is noted in the same
//! step that checks it is still allowed. `$HELVE_HOME/approvals.sqlite` is the truth, not a copy of something: a file
//! that cannot be read is an error, never an empty list that is written over. SQLite, because several processes add, use
//! and revoke at once and a row must be there whole or not at all; the file is opened only when a question would be
//! asked, so that no other call pays for it.
//!
//! **Not here:** whether a pattern matches a command, and what a person may grant (the runtime and the policy).

mod row;
mod schema;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior, params};

pub use row::{ApprovalScope, BoundScript, NewApproval, StoredApproval, Within};

use crate::{Home, StoreError, files};

/// So many approvals may hold at once.
const MOST: u64 = 10_000;
/// Approvals that ended are kept so long, so that a decision of the past can be explained.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The approvals of one state directory.
#[derive(Debug)]
pub struct Approvals {
    database: Connection,
}

impl Approvals {
    /// Opens the approvals, making the file when there is none.
    pub fn open(home: &Home) -> Result<Approvals, StoreError> {
        Ok(Approvals { database: schema::open(home)? })
    }

    /// Opens the approvals; none when nothing was ever approved for longer than a call.
    pub fn open_existing(home: &Home) -> Result<Option<Approvals>, StoreError> {
        let found = files::stat(home.dir(), schema::FILE)
            .map_err(|error| StoreError::io("cannot look for the approvals", schema::FILE, error))?;
        found.map(|_| Self::open(home)).transpose()
    }

    /// Keeps an approval. One that says the same and still holds is prolonged or shortened instead of doubled.
    pub fn add(&mut self, new: &NewApproval) -> Result<StoredApproval, StoreError> {
        let now = now_us();
        let scripts = row::scripts_text(&new.scripts)?;
        let scope = new.scope.to_string();
        let transaction =
            self.database.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        tidy(&transaction, now)?;
        let same = "SELECT id FROM approvals WHERE tool = ?1 AND caller = ?2 AND rule = ?3 AND reason = ?4 AND \
                    within = ?5 AND scope = ?6 AND pattern = ?7 AND cwd = ?8 AND scripts = ?9 AND revoked_at IS NULL \
                    AND (expires_at IS NULL OR expires_at > ?10)";
        let known = params![
            new.tool,
            new.caller,
            new.rule,
            new.reason,
            new.within.name(),
            scope,
            new.pattern,
            new.cwd,
            scripts,
            row::number(now)
        ];
        let same: Option<String> = optional(transaction.query_row(same, known, |row| row.get(0)))?;
        let id = match same {
            Some(id) => {
                let update = "UPDATE approvals SET expires_at = ?2, created_at = ?3, created_by = ?4, call = ?5, \
                              shown = ?6 WHERE id = ?1";
                let expires = new.expires_at_us.map(row::number);
                let values = params![id, expires, row::number(now), new.created_by, new.call, new.shown];
                transaction.execute(update, values).map_err(failed)?;
                id
            }
            None => {
                let held = "SELECT count(*) FROM approvals WHERE revoked_at IS NULL";
                let held: i64 = transaction.query_row(held, [], |row| row.get(0)).map_err(failed)?;
                if u64::try_from(held).unwrap_or_default() >= MOST {
                    return Err(StoreError::TooManyApprovals { limit: MOST });
                }
                let id = fresh_id(now);
                let insert = "INSERT INTO approvals (id, pattern, tool, caller, rule, reason, within, scope, cwd, \
                              scripts, expires_at, created_at, created_by, call, shown) VALUES (?1, ?2, ?3, ?4, ?5, \
                              ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
                let values = params![
                    id,
                    new.pattern,
                    new.tool,
                    new.caller,
                    new.rule,
                    new.reason,
                    new.within.name(),
                    scope,
                    new.cwd,
                    scripts,
                    new.expires_at_us.map(row::number),
                    row::number(now),
                    new.created_by,
                    new.call,
                    new.shown
                ];
                transaction.execute(insert, values).map_err(failed)?;
                id
            }
        };
        let stored = row::get(&transaction, &id)?;
        transaction.commit().map_err(failed)?;
        stored.ok_or_else(|| failed(rusqlite::Error::QueryReturnedNoRows))
    }

    /// The approvals, newest first: those that hold now, or all that are still known.
    pub fn list(&self, ended_too: bool) -> Result<Vec<StoredApproval>, StoreError> {
        let query = "WHERE ?1 OR (revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?2)) \
                     ORDER BY created_at DESC, id";
        row::select(&self.database, query, params![ended_too, row::number(now_us())])
    }

    /// One approval by its id, whether it still holds or not.
    pub fn get(&self, id: &str) -> Result<Option<StoredApproval>, StoreError> {
        row::get(&self.database, id)
    }

    /// What holds now for a tool in a scope.
    pub fn find(&self, tool: &str, scope: &ApprovalScope) -> Result<Vec<StoredApproval>, StoreError> {
        let query = "WHERE scope = ?1 AND tool = ?2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?3) \
                     ORDER BY created_at DESC, id";
        row::select(&self.database, query, params![scope.to_string(), tool, row::number(now_us())])
    }

    /// Notes that a call goes ahead on these approvals. False, and nothing is noted, when one of them has ended since it
    /// was found.
    pub fn touch(&mut self, ids: &[&str]) -> Result<bool, StoreError> {
        let now = row::number(now_us());
        let transaction =
            self.database.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let update = "UPDATE approvals SET last_used_at = ?2, uses = uses + 1 WHERE id = ?1 AND revoked_at IS NULL \
                      AND (expires_at IS NULL OR expires_at > ?2)";
        for id in ids {
            if transaction.execute(update, params![id, now]).map_err(failed)? == 0 {
                return Ok(false);
            }
        }
        transaction.commit().map_err(failed)?;
        Ok(true)
    }

    /// Ends an approval; false when there is none of that id that still holds.
    pub fn revoke(&mut self, id: &str) -> Result<bool, StoreError> {
        let update = "UPDATE approvals SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL \
                      AND (expires_at IS NULL OR expires_at > ?2)";
        let ended = self.database.execute(update, params![id, row::number(now_us())]).map_err(failed)?;
        Ok(ended == 1)
    }

    /// Forgets what ended long ago; how many that were, or with `dry_run` would be.
    pub fn gc(&mut self, dry_run: bool) -> Result<usize, StoreError> {
        if !dry_run {
            return tidy(&self.database, now_us());
        }
        let count = format!("SELECT count(*) FROM approvals WHERE {ENDED_BEFORE}");
        let count =
            self.database.query_row(&count, params![ended_before(now_us())], |row| row.get::<_, i64>(0));
        count.map(|count| usize::try_from(count).unwrap_or_default()).map_err(failed)
    }
}

const ENDED_BEFORE: &str = "revoked_at < ?1 OR expires_at < ?1";

/// What ended before this moment is forgotten.
fn ended_before(now: u64) -> i64 {
    row::number(now.saturating_sub(files::microseconds(KEPT)))
}

fn tidy(database: &Connection, now: u64) -> Result<usize, StoreError> {
    let delete = format!("DELETE FROM approvals WHERE {ENDED_BEFORE}");
    database.execute(&delete, params![ended_before(now)]).map_err(failed)
}

fn failed(error: rusqlite::Error) -> StoreError {
    StoreError::Approvals(error)
}

fn optional<T>(result: rusqlite::Result<T>) -> Result<Option<T>, StoreError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn now_us() -> u64 {
    files::microseconds(files::now())
}

/// `a_` and 10 letters or digits. Unique is all that it has to be; nothing trusts it to be unguessable.
fn fresh_id(now: u64) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    // The keys of a `RandomState` come from the operating system.
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(now);
    hasher.write_u32(std::process::id());
    let mut bits = hasher.finish();
    let mut id = String::from("a_");
    for _ in 0..10 {
        id.push(char::from(DIGITS[(bits & 31) as usize]));
        bits >>= 5;
    }
    id
}

#[cfg(test)]
mod tests;
