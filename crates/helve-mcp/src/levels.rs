//! How grave a log message is, in the words of the protocol and in ours.

#![expect(deprecated, reason = "logging is still spoken in both eras")]

use helve_core::LogLevel;
use rmcp::model::LoggingLevel;

const TABLE: [(LoggingLevel, LogLevel); 8] = [
    (LoggingLevel::Debug, LogLevel::Debug),
    (LoggingLevel::Info, LogLevel::Info),
    (LoggingLevel::Notice, LogLevel::Notice),
    (LoggingLevel::Warning, LogLevel::Warning),
    (LoggingLevel::Error, LogLevel::Error),
    (LoggingLevel::Critical, LogLevel::Critical),
    (LoggingLevel::Alert, LogLevel::Alert),
    (LoggingLevel::Emergency, LogLevel::Emergency),
];

/// A level of the protocol as ours.
pub(crate) fn ours(level: LoggingLevel) -> LogLevel {
    TABLE.iter().find(|(theirs, _)| *theirs == level).map_or(LogLevel::Emergency, |(_, ours)| *ours)
}

/// A level of ours as the protocol has it.
pub(crate) fn theirs(level: LogLevel) -> LoggingLevel {
    TABLE.iter().find(|(_, ours)| *ours == level).map_or(LoggingLevel::Emergency, |(theirs, _)| *theirs)
}
