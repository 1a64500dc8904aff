//! The database file of the approvals.

use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use rustix::fs::OFlags;

use super::failed;
use crate::{Home, StoreError, files};

pub(super) const FILE: &str = "approvals.sqlite";

/// Each step takes a database from the version of its place in the list to the next.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE approvals (
        id TEXT PRIMARY KEY,
        pattern TEXT NOT NULL,
        tool TEXT NOT NULL,
        caller TEXT NOT NULL,
        rule TEXT NOT NULL,
        reason TEXT NOT NULL,
        within TEXT NOT NULL,
        scope TEXT NOT NULL,
        cwd TEXT NOT NULL,
        scripts TEXT NOT NULL,
        expires_at INTEGER,
        created_at INTEGER NOT NULL,
        created_by TEXT NOT NULL,
        call TEXT NOT NULL,
        shown TEXT NOT NULL,
        last_used_at INTEGER,
        uses INTEGER NOT NULL DEFAULT 0,
        revoked_at INTEGER
    ) WITHOUT ROWID;
    CREATE INDEX approvals_by_scope ON approvals (scope, tool);
"];

/// Opens the database with all migrations applied. With SQLite's rollback journal a writer that is killed leaves either
/// the state before or the state after, and each commit is forced to the disk: a revoked approval must not come back.
pub(super) fn open(home: &Home) -> Result<Connection, StoreError> {
    // Made beforehand, because SQLite would make it readable for others; its side files take over the mode.
    files::open_or_make(home.dir(), FILE, OFlags::RDWR)
        .map_err(|error| StoreError::io("cannot open the approvals", FILE, error))?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut database = Connection::open_with_flags(home.path().join(FILE), flags).map_err(failed)?;
    database.busy_timeout(Duration::from_secs(10)).map_err(failed)?;
    migrate(&mut database)?;
    Ok(database)
}

fn migrate(database: &mut Connection) -> Result<(), StoreError> {
    let version = |database: &Connection| {
        database.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).map_err(failed)
    };
    let newest = MIGRATIONS.len() as i64;
    // Looked at without a lock first, so that opening an up-to-date file writes nothing.
    if version(database)? == newest {
        return Ok(());
    }
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let from = usize::try_from(version(&transaction)?).ok().and_then(|from| MIGRATIONS.get(from..));
    for step in from.ok_or(StoreError::NewerApprovals)? {
        transaction.execute_batch(step).map_err(failed)?;
    }
    transaction.pragma_update(None, "user_version", newest).map_err(failed)?;
    transaction.commit().map_err(failed)
}
