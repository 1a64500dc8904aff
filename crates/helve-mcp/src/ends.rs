//! Ends of pipes and sockets, used without a thread between and looked at without asking the runtime first.
//!
//! The runtime knows what came when it has asked the kernel about everything it watches. Whoever waits awake for one answer asks
//! for that alone: an end is read first, and only when there is nothing is the runtime told to watch it.
//!
//! The standard streams belong to whoever started this program, and others may use the same ones. So they are never made
//! non-blocking: a pipe is opened anew, and a socket is asked each time not to block. (Programs on Node give sockets to those
//! whom they start, most others pipes.)

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use rustix::buffer::spare_capacity;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, Interest};
use tokio::task::coop;

/// Something that is read to the end of what is held already.
pub(crate) trait Source: Send {
    /// Reads into the room behind what is held; how much, nothing at the end.
    fn poll_into(&mut self, held: &mut Vec<u8>, poller: &mut Context<'_>) -> Poll<io::Result<usize>>;

    /// Whether that sees what has come without anybody else's doing.
    fn is_seen(&self) -> bool {
        false
    }
}

impl<R: AsyncRead + Send + Unpin> Source for R {
    fn poll_into(&mut self, held: &mut Vec<u8>, poller: &mut Context<'_>) -> Poll<io::Result<usize>> {
        pin!(self.read_buf(held)).poll(poller)
    }
}

impl Source for Box<dyn Source> {
    fn poll_into(&mut self, held: &mut Vec<u8>, poller: &mut Context<'_>) -> Poll<io::Result<usize>> {
        (**self).poll_into(held, poller)
    }

    fn is_seen(&self) -> bool {
        (**self).is_seen()
    }
}

/// How an end is used.
#[derive(Debug)]
enum End {
    /// A pipe's, which does not block.
    Pipe(OwnedFd),
    /// A socket's.
    Socket(OwnedFd),
}

impl End {
    /// One of the standard streams; none if it is something else, such as a file or a terminal, or somebody else's pipe.
    fn standard(stream: BorrowedFd<'_>, access: OFlags) -> Option<End> {
        let mode = rustix::fs::fstat(stream).ok()?.st_mode;
        match FileType::from_raw_mode(mode) {
            FileType::Fifo => {
                let path = format!("/proc/self/fd/{}", stream.as_raw_fd());
                let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
                rustix::fs::open(path, flags, Mode::empty()).ok().map(End::Pipe)
            }
            FileType::Socket => stream.try_clone_to_owned().ok().map(End::Socket),
            _ => None,
        }
    }

    fn read(&self, held: &mut Vec<u8>) -> io::Result<usize> {
        let read = || match self {
            End::Pipe(pipe) => rustix::io::read(pipe, spare_capacity(held)),
            End::Socket(socket) => {
                rustix::net::recv(socket, spare_capacity(held), RecvFlags::DONTWAIT).map(|(count, _)| count)
            }
        };
        Ok(retry_on_intr(read)?)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let write = || match self {
            End::Pipe(pipe) => rustix::io::write(pipe, bytes),
            End::Socket(socket) => {
                rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            }
        };
        Ok(retry_on_intr(write)?)
    }
}

impl AsRawFd for End {
    fn as_raw_fd(&self) -> RawFd {
        let (End::Pipe(end) | End::Socket(end)) = self;
        end.as_raw_fd()
    }
}

/// Has the runtime watch an end.
#[expect(
    deprecated,
    reason = "its successor asks for a promise that an end keeps: it owns one descriptor for as long as it lives"
)]
fn watch(end: End, interest: Interest) -> io::Result<AsyncFd<End>> {
    AsyncFd::with_interest(end, interest)
}

/// The end that is read.
#[derive(Debug)]
pub(crate) struct ReadEnd(AsyncFd<End>);

impl ReadEnd {
    /// The reading end of a pipe that does not block.
    pub(crate) fn of_pipe(pipe: OwnedFd) -> io::Result<ReadEnd> {
        ReadEnd::new(End::Pipe(pipe))
    }

    /// Standard input; none if it is neither pipe nor socket.
    pub(crate) fn standard() -> Option<ReadEnd> {
        ReadEnd::new(End::standard(io::stdin().as_fd(), OFlags::RDONLY)?).ok()
    }

    fn new(end: End) -> io::Result<ReadEnd> {
        Ok(ReadEnd(watch(end, Interest::READABLE)?))
    }
}

impl Source for ReadEnd {
    fn poll_into(&mut self, held: &mut Vec<u8>, poller: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // Somebody who never stops talking does not keep everybody else waiting.
        let turn = ready!(coop::poll_proceed(poller));
        let mut read = self.0.get_ref().read(held);
        while matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            let mut is_readable = ready!(self.0.poll_read_ready(poller))?;
            let Ok(again) = is_readable.try_io(|end| end.get_ref().read(held)) else { continue };
            read = again;
        }
        turn.made_progress();
        Poll::Ready(read)
    }

    fn is_seen(&self) -> bool {
        true
    }
}

/// The end that is written.
#[derive(Debug)]
pub(crate) struct WriteEnd(AsyncFd<End>);

impl WriteEnd {
    /// Standard output; none if it is neither pipe nor socket.
    pub(crate) fn standard() -> Option<WriteEnd> {
        WriteEnd::new(End::standard(io::stdout().as_fd(), OFlags::WRONLY)?).ok()
    }

    fn new(end: End) -> io::Result<WriteEnd> {
        Ok(WriteEnd(watch(end, Interest::WRITABLE)?))
    }
}

impl AsyncWrite for WriteEnd {
    fn poll_write(self: Pin<&mut Self>, poller: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut is_writable = ready!(self.0.poll_write_ready(poller))?;
            if let Ok(written) = is_writable.try_io(|end| end.get_ref().write(bytes)) {
                return Poll::Ready(written);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _poller: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _poller: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read as _, Write as _};
    use std::time::Duration;

    use pretty_assertions::assert_eq;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// The two ends of a pipe and of a socket, as this program would get them: blocking.
    fn pairs() -> Vec<(&'static str, OwnedFd, OwnedFd)> {
        let (from, to) = rustix::pipe::pipe().unwrap();
        let (one, other) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)
                .unwrap();
        vec![("pipe", from, to), ("socket", one, other)]
    }

    fn is_blocking(end: &OwnedFd) -> bool {
        !rustix::fs::fcntl_getfl(end).unwrap().contains(OFlags::NONBLOCK)
    }

    async fn read(end: &mut ReadEnd) -> String {
        let mut held = Vec::with_capacity(64);
        let reading = poll_fn(|poller| end.poll_into(&mut held, poller));
        let count = tokio::time::timeout(Duration::from_secs(10), reading).await.unwrap().unwrap();
        assert_eq!(count, held.len());
        String::from_utf8(held).unwrap()
    }

    #[tokio::test]
    async fn what_comes_is_read_and_the_stream_stays_as_it_was() {
        for (kind, from, to) in pairs() {
            let mut end = ReadEnd::new(End::standard(from.as_fd(), OFlags::RDONLY).unwrap()).unwrap();
            let mut to = std::fs::File::from(to);
            to.write_all(b"one").unwrap();
            assert_eq!(read(&mut end).await, "one", "{kind}: at once");
            let mut nothing = Vec::with_capacity(64);
            let look = poll_fn(|poller| Poll::Ready(end.poll_into(&mut nothing, poller).is_pending())).await;
            assert!(look, "{kind}: nothing is there");
            let writer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                to.write_all(b"two").unwrap();
            });
            assert_eq!(read(&mut end).await, "two", "{kind}: once it came");
            writer.join().unwrap();
            assert_eq!(read(&mut end).await, "", "{kind}: the end");
            assert!(is_blocking(&from), "{kind}");
        }
    }

    #[tokio::test]
    async fn what_is_written_arrives_also_where_it_does_not_fit_and_the_stream_stays_as_it_was() {
        for (kind, from, to) in pairs() {
            let end = WriteEnd::new(End::standard(to.as_fd(), OFlags::WRONLY).unwrap());
            let mut end = end.unwrap();
            let much = vec![b'x'; 4 << 20];
            let length = much.len();
            let reader = std::thread::spawn(move || {
                let mut got = vec![0; length];
                std::fs::File::from(from).read_exact(&mut got).unwrap();
                got
            });
            end.write_all(&much).await.unwrap();
            assert_eq!(reader.join().unwrap(), much, "{kind}");
            assert!(is_blocking(&to), "{kind}");
            // Nobody reads any more.
            assert_eq!(end.write_all(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe, "{kind}");
        }
    }

    #[tokio::test]
    async fn who_never_stops_talking_lets_others_have_their_turn() {
        for (kind, from, to) in pairs() {
            let mut end = ReadEnd::new(End::standard(from.as_fd(), OFlags::RDONLY).unwrap()).unwrap();
            let mut to = std::fs::File::from(to);
            let mut held = Vec::with_capacity(1);
            let reads = poll_fn(move |poller| {
                for count in 0..10_000 {
                    to.write_all(b"x").unwrap();
                    held.clear();
                    if end.poll_into(&mut held, poller).is_pending() {
                        return Poll::Ready(count);
                    }
                }
                Poll::Ready(10_000)
            });
            assert!((1..1_000).contains(&tokio::spawn(reads).await.unwrap()), "{kind}");
        }
    }

    #[test]
    fn a_file_is_no_end() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(End::standard(file.as_fd(), OFlags::RDONLY).is_none());
    }
}
