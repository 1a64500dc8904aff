//! One request to an engine: HTTP/1.1 over its Unix socket, a connection each, and never longer than it may take.
//!
//! In: a socket, a method, a path and a document. Out: a status and the body of the answer. Blocking, because whoever asks
//! has a thread of its own for it. Deliberately not here: what the requests mean (`engine`).

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::Value;

/// The largest answer.
const MOST_BYTES: usize = 8 << 20;
/// The longest head of an answer, and how many headers it may have.
const HEAD_BYTES: usize = 64 << 10;
const HEADERS: usize = 64;

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The status code.
    pub(super) status: u16,
    /// The body.
    pub(super) body: Vec<u8>,
}

/// Asks and waits for the whole answer, `within` at the latest.
pub(super) fn ask(
    socket: &Path,
    (method, path): (&str, &str),
    document: Option<&Value>,
    within: Duration,
) -> io::Result<Answer> {
    let mut connection = send(socket, (method, path), document, within)?;
    receive(&mut connection, Some(Instant::now() + within))
}

/// Asks; the answer is whoever's who reads it with [`receive`].
pub(super) fn send(
    socket: &Path,
    (method, path): (&str, &str),
    document: Option<&Value>,
    within: Duration,
) -> io::Result<UnixStream> {
    let mut connection = connect(socket)?;
    connection.set_write_timeout(Some(within))?;
    let body = document.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    let kind = if document.is_some() { "Content-Type: application/json\r\n" } else { "" };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{kind}Content-Length: {length}\r\n\r\n{body}"
    );
    connection.write_all(request.as_bytes())?;
    Ok(connection)
}

/// A connection that is refused at once where nobody takes it.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(crate::drain::above_streams(socket)?);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Reads the answer to its end, until the deadline if there is one.
pub(super) fn receive(connection: &mut UnixStream, deadline: Option<Instant>) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        if let Some(answer) = whole(&bytes)? {
            return Ok(answer);
        }
        if bytes.len() > MOST_BYTES {
            return Err(io::Error::other("the engine's answer is too large"));
        }
        if let Some(deadline) = deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            connection.set_read_timeout(Some(left))?;
        }
        match connection.read(&mut buffer) {
            Ok(0) => return ended(&bytes),
            Ok(count) => bytes.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether the whole answer has come, or the connection has ended. Takes nothing of it. Engines send the head long before
/// an answer for which one has to wait.
pub(super) fn is_answered(connection: &UnixStream) -> bool {
    let mut buffer = [0; 16 << 10];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match rustix::net::recv(connection, &mut buffer, flags) {
        Ok((0, _)) => true,
        Ok((count, _)) => !matches!(whole(buffer.get(..count).unwrap_or_default()), Ok(None)),
        Err(errno) => errno != rustix::io::Errno::AGAIN && errno != rustix::io::Errno::INTR,
    }
}

/// How the length of a body is known.
enum Length {
    Bytes(usize),
    Chunks,
    /// Until the connection ends.
    Rest,
}

struct Head {
    status: u16,
    length: Length,
    /// Where the body begins.
    at: usize,
}

fn head(bytes: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let at = match response.parse(bytes).map_err(broken)? {
        httparse::Status::Complete(at) => at,
        httparse::Status::Partial if bytes.len() > HEAD_BYTES => return Err(broken("a head without an end")),
        httparse::Status::Partial => return Ok(None),
    };
    let status = response.code.unwrap_or_default();
    let value = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok().map(str::trim)
    };
    let length = if value("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        Length::Chunks
    } else if let Some(length) = value("content-length") {
        Length::Bytes(length.parse().map_err(|_| broken("a length that is no number"))?)
    } else if status == 204 || status == 304 {
        Length::Bytes(0)
    } else {
        Length::Rest
    };
    Ok(Some(Head { status, length, at }))
}

/// The answer, if all of it is there.
fn whole(bytes: &[u8]) -> io::Result<Option<Answer>> {
    let Some(head) = head(bytes)? else { return Ok(None) };
    // What an engine says before its answer proper.
    if (100..200).contains(&head.status) {
        return whole(bytes.get(head.at..).unwrap_or_default());
    }
    let rest = bytes.get(head.at..).unwrap_or_default();
    let body = match head.length {
        Length::Bytes(length) if length > MOST_BYTES => return Err(broken("a body that is too large")),
        Length::Bytes(length) => rest.get(..length).map(<[u8]>::to_vec),
        Length::Chunks => unchunk(rest)?,
        Length::Rest => None,
    };
    Ok(body.map(|body| Answer { status: head.status, body }))
}

/// The answer of a connection that has ended.
fn ended(bytes: &[u8]) -> io::Result<Answer> {
    match head(bytes)? {
        Some(Head { status, length: Length::Rest, at }) => {
            Ok(Answer { status, body: bytes.get(at..).unwrap_or_default().to_vec() })
        }
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A body in chunks; none if some of it is still to come.
fn unchunk(mut rest: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    loop {
        let (at, length) = match httparse::parse_chunk_size(rest).map_err(|_| broken("a broken chunk"))? {
            httparse::Status::Complete(found) => found,
            httparse::Status::Partial => return Ok(None),
        };
        if length == 0 {
            return Ok(Some(body));
        }
        let length = usize::try_from(length).ok().filter(|length| *length <= MOST_BYTES);
        let length = length.ok_or_else(|| broken("a chunk that is too large"))?;
        let Some(chunk) = rest.get(at..at + length) else { return Ok(None) };
        body.extend_from_slice(chunk);
        // The chunk is ended by an empty line.
        let Some(next) = rest.get(at + length + 2..) else { return Ok(None) };
        rest = next;
    }
}

fn broken(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the engine does not speak HTTP: {what}"))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn body(text: &str) -> Option<(u16, String)> {
        let answer = whole(text.as_bytes()).unwrap()?;
        Some((answer.status, String::from_utf8(answer.body).unwrap()))
    }

    #[test]
    fn a_body_ends_by_its_length_by_its_last_chunk_or_with_the_connection() {
        let head = "HTTP/1.1 200 OK\r\n";
        assert_eq!(body(&format!("{head}Content-Length: 3\r\n\r\nabcd")), Some((200, "abc".to_owned())));
        assert_eq!(body(&format!("{head}Content-Length: 3\r\n\r\nab")), None);
        let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3;x=y\r\ncde\r\n0\r\n\r\n");
        assert_eq!(body(&chunked), Some((200, "abcde".to_owned())));
        for cut in 0..chunked.len() - 4 {
            assert_eq!(body(&chunked[..cut]), None, "{cut}");
        }
        assert_eq!(body(&format!("{head}\r\nabc")), None);
        assert_eq!(ended(format!("{head}\r\nabc").as_bytes()).unwrap().body, b"abc");
        assert!(ended(format!("{head}Content-Length: 4\r\n\r\nabc").as_bytes()).is_err());
        assert_eq!(body("HTTP/1.1 204 No Content\r\n\r\n"), Some((204, String::new())));
        let after = format!("HTTP/1.1 100 Continue\r\n\r\n{head}Content-Length: 1\r\n\r\nx");
        assert_eq!(body(&after), Some((200, "x".to_owned())));
    }

    #[test]
    fn nothing_is_taken_that_is_too_large() {
        assert!(whole(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n").is_err());
        assert!(whole(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n").is_err());
        let long = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(HEAD_BYTES));
        assert!(whole(long.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = whole(&bytes);
            let chunks = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", bytes.as_slice()].concat();
            let _ = whole(&chunks);
            let _ = ended(&bytes);
        }
    }
}
