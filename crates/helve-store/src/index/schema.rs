//! The database file of the index, and what stands in for it where it cannot be written.

use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::OFlags;

use crate::{Home, StoreError, files};

const FILE: &str = "index.sqlite";
const DAMAGED: &str = "index.sqlite.damaged";

/// How long somebody else may have it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Each step takes a database from the version of its place in the list to the next.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE sessions (
        name TEXT PRIMARY KEY,
        last_seq INTEGER NOT NULL,
        last_hash TEXT NOT NULL,
        last_start INTEGER NOT NULL,
        last_end INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE calls (
        session TEXT NOT NULL,
        call TEXT NOT NULL,
        seq INTEGER NOT NULL,
        at_us INTEGER NOT NULL,
        tool TEXT,
        caller TEXT,
        ok INTEGER,
        error_kind TEXT,
        duration_us INTEGER,
        verdict TEXT,
        blob TEXT,
        truncated_bytes INTEGER,
        args TEXT,
        planned_at INTEGER,
        outcome_at INTEGER,
        PRIMARY KEY (session, call)
    ) WITHOUT ROWID;
    CREATE INDEX calls_by_time ON calls (at_us, session, seq);
    CREATE INDEX calls_by_id ON calls (call);
"];

/// Opens the database, with all migrations applied. What cannot be used is set aside and made anew.
pub(super) fn open(home: &Home) -> Result<Connection, StoreError> {
    match try_open(home) {
        Ok(Some(database)) => Ok(database),
        Ok(None) => open_anew(home),
        Err(StoreError::Index(error)) if is_damage(&error) => open_anew(home),
        Err(error) => open_instead(error),
    }
}

/// Sets the file aside and opens a new one.
pub(super) fn open_anew(home: &Home) -> Result<Connection, StoreError> {
    match set_aside(home).and_then(|()| try_open(home)) {
        Ok(Some(database)) => Ok(database),
        Ok(None) => {
            let error = std::io::Error::other("a new file already has a version of its own");
            Err(StoreError::io("cannot make the call index", FILE, error))
        }
        Err(error) => open_instead(error),
    }
}

/// What stands in for the file after this error: the journals can be read although the file cannot be written.
fn open_instead(error: StoreError) -> Result<Connection, StoreError> {
    match error {
        StoreError::Io { .. } => open_temporary(),
        StoreError::Index(error) if is_unwritable(&error) => open_temporary(),
        other => Err(other),
    }
}

/// An empty database without a name, gone when it is closed. SQLite keeps it in memory while it is small.
pub(super) fn open_temporary() -> Result<Connection, StoreError> {
    let mut database = Connection::open("")?;
    migrate(&mut database)?;
    Ok(database)
}

/// `None` when the file was written by a newer version.
fn try_open(home: &Home) -> Result<Option<Connection>, StoreError> {
    // Made beforehand, because SQLite would make it readable for others; its side files take over the mode.
    files::open_or_make(home.dir(), FILE, OFlags::RDWR)
        .map_err(|error| StoreError::io("cannot open the call index", FILE, error))?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut database = Connection::open_with_flags(home.path().join(FILE), flags)?;
    database.busy_timeout(PATIENCE)?;
    write_ahead(&database)?;
    // The index can always be rebuilt, so it never waits for the disk.
    database.pragma_update(None, "synchronous", "OFF")?;

    Ok(migrate(&mut database)?.then_some(database))
}

/// Has it written ahead. A new file is changed for that, and SQLite does not wait for who changes it at the same moment.
fn write_ahead(database: &Connection) -> Result<(), rusqlite::Error> {
    let begun = Instant::now();
    loop {
        match database.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if is_busy(&error) && begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(1));
            }
            done => return done,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// Applies the migrations that are missing; false when the database was written by a newer version.
fn migrate(database: &mut Connection) -> Result<bool, StoreError> {
    let transaction = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let Some(missing) = usize::try_from(version).ok().and_then(|version| MIGRATIONS.get(version..)) else {
        return Ok(false);
    };
    for step in missing {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    transaction.commit()?;
    Ok(true)
}

/// Whether an error means that the file, or what SQLite keeps beside it, cannot be written.
pub(super) fn is_unwritable(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    code.is_some_and(|code| {
        matches!(
            code,
            ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::PermissionDenied
        )
    })
}

/// Whether an error means that the file is not, or no longer, an index.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, message) => match failure.code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation => true,
            // Tables that are missing, or present where they should not be.
            ErrorCode::Unknown => message
                .as_deref()
                .is_some_and(|text| text.contains("no such") || text.contains("already exists")),
            _ => false,
        },
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::SqlInputError { .. } => true,
        _ => false,
    }
}

/// Moves the file out of the way. One damaged file is kept for a look, not more.
fn set_aside(home: &Home) -> Result<(), StoreError> {
    let dir = home.dir();
    let done = rustix::fs::renameat(dir, FILE, dir, DAMAGED)
        .or_else(|error| if error == rustix::io::Errno::NOENT { Ok(()) } else { Err(error) })
        .map_err(std::io::Error::from)
        .and_then(|()| files::remove_file(dir, "index.sqlite-wal"))
        .and_then(|()| files::remove_file(dir, "index.sqlite-shm"));
    done.map_err(|error| StoreError::io("cannot set the damaged call index aside", FILE, error))
}
