//! What goes out to a client on standard output, from whoever has something to say.
//!
//! In come whole messages, out come the same bytes with as few writes as can be: what was put while nobody wrote goes out in
//! one. No message is cut in two by another. What a client does not read is held up to a limit; then who writes has to wait.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

use tokio::io::AsyncWrite;

/// So much may wait for a client that does not read.
const MOST_HELD: usize = 4 << 20;
/// A buffer of more than this goes once it is empty.
const USUAL: usize = 256 << 10;

/// The way out. Cheap to clone; every clone leads to the same client.
pub(super) struct Outbox<W>(Arc<Mutex<Pen<W>>>);

struct Pen<W> {
    /// None once nothing can be written any more.
    pipe: Option<W>,
    held: Vec<u8>,
    /// Up to where it was written.
    from: usize,
    waiting: Arc<Waiting>,
    wakes: Waker,
}

/// Everybody who waits for the client to read: a pipe itself remembers only the last one.
#[derive(Default)]
struct Waiting(Mutex<Vec<Waker>>);

impl Waiting {
    fn wakers(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, waker: &Waker) {
        let mut wakers = self.wakers();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        for waker in std::mem::take(&mut *self.wakers()) {
            waker.wake();
        }
    }
}

impl<W> Clone for Outbox<W> {
    fn clone(&self) -> Self {
        Outbox(Arc::clone(&self.0))
    }
}

impl<W> Outbox<W> {
    pub(super) fn new(pipe: W) -> Self {
        let waiting = Arc::new(Waiting::default());
        let wakes = Waker::from(Arc::clone(&waiting));
        Outbox(Arc::new(Mutex::new(Pen { pipe: Some(pipe), held: Vec::new(), from: 0, waiting, wakes })))
    }

    fn pen(&self) -> MutexGuard<'_, Pen<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message behind what is there; it goes out with the next flush. One for a client that is gone is dropped.
    pub(super) fn put(&self, message: impl FnOnce(&mut Vec<u8>)) {
        let mut pen = self.pen();
        if pen.pipe.is_some() {
            message(&mut pen.held);
        }
    }

    /// Whether there is no room for more before something was read.
    pub(super) fn is_full(&self) -> bool {
        self.pen().waits() > MOST_HELD
    }

    /// Whether enough waits that what nobody asked for is better left out: it must not fill the room of answers.
    pub(super) fn is_behind(&self) -> bool {
        self.pen().waits() > USUAL
    }

    /// Ends it; what was not written goes.
    pub(super) fn close(&self) {
        self.pen().close();
    }
}

impl<W> Pen<W> {
    fn waits(&self) -> usize {
        self.held.len() - self.from
    }

    fn close(&mut self) {
        self.pipe = None;
        self.held = Vec::new();
        self.from = 0;
    }
}

impl<W: AsyncWrite + Unpin> Pen<W> {
    fn flush(&mut self, poller: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.waits() > 0 && self.write().is_pending() {
            // Whoever comes to wait is noted before it is tried again, so that no wake is missed.
            self.waiting.add(poller.waker());
            ready!(self.write())?;
        }
        match self.pipe {
            Some(_) => Poll::Ready(Ok(())),
            None => Poll::Ready(Err(gone())),
        }
    }

    fn write(&mut self) -> Poll<io::Result<()>> {
        let wakes = self.wakes.clone();
        let mut waker = Context::from_waker(&wakes);
        while let (Some(pipe), Some(rest @ [_, ..])) = (&mut self.pipe, self.held.get(self.from..)) {
            match ready!(Pin::new(pipe).poll_write(&mut waker, rest)) {
                Ok(count @ 1..) => {
                    self.from += count;
                    // A client that never catches up does not make it grow.
                    if self.from > MOST_HELD {
                        self.held.drain(..self.from);
                        self.from = 0;
                    }
                }
                Ok(0) | Err(_) => self.close(),
            }
        }
        self.from = 0;
        self.held.clear();
        if self.held.capacity() > USUAL {
            self.held = Vec::new();
        }
        match &mut self.pipe {
            Some(pipe) => Pin::new(pipe).poll_flush(&mut waker),
            None => Poll::Ready(Ok(())),
        }
    }
}

pub(super) fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the client does not read any more")
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    /// Writes what was put; ready when all of it is with the client.
    pub(super) fn poll_send(&self, poller: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pen().flush(poller)
    }
}

/// What is written at once stays together: whoever writes through this gives whole messages.
impl<W: AsyncWrite + Unpin> AsyncWrite for Outbox<W> {
    fn poll_write(self: Pin<&mut Self>, poller: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut pen = self.pen();
        if pen.waits() > MOST_HELD {
            ready!(pen.flush(poller))?;
        }
        if pen.pipe.is_none() {
            return Poll::Ready(Err(gone()));
        }
        pen.held.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, poller: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(poller)
    }

    fn poll_shutdown(self: Pin<&mut Self>, poller: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(poller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn what_many_say_arrives_whole_also_where_the_client_reads_slowly() {
        let (mut client, pipe) = tokio::io::duplex(7);
        let outbox = Outbox::new(pipe);
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..8 {
            let mut outbox = outbox.clone();
            writers.spawn(async move {
                for number in 0..50 {
                    let line = format!("{writer} {number} {}\n", "x".repeat(number));
                    if number % 2 == 0 {
                        outbox.put(|out| out.extend_from_slice(line.as_bytes()));
                        std::future::poll_fn(|poller| outbox.poll_send(poller)).await.unwrap();
                    } else {
                        outbox.write_all(line.as_bytes()).await.unwrap();
                        outbox.flush().await.unwrap();
                    }
                }
            });
        }
        let reading = tokio::spawn(async move {
            let mut text = String::new();
            client.read_to_string(&mut text).await.unwrap();
            text
        });
        writers.join_all().await;
        outbox.close();
        let text = reading.await.unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let mut expected: Vec<String> = (0..8)
            .flat_map(|writer| (0..50).map(move |number| format!("{writer} {number} {}", "x".repeat(number))))
            .collect();
        expected.sort_unstable();
        assert_eq!(lines, expected);
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_waited_for_and_one_that_is_gone_is_not() {
        let (client, pipe) = tokio::io::duplex(16);
        let mut outbox = Outbox::new(pipe);
        let much = vec![b'x'; MOST_HELD + 100];
        outbox.write_all(&much).await.unwrap();
        assert!(outbox.is_full());
        let more = tokio::time::timeout(std::time::Duration::from_millis(20), outbox.write_all(b"y")).await;
        assert!(more.is_err(), "there is no room");
        drop(client);
        assert!(outbox.write_all(b"y").await.is_err());
        outbox.put(|out| out.push(b'z'));
        assert_eq!((outbox.is_full(), outbox.pen().held.len()), (false, 0));
    }

    #[tokio::test]
    async fn a_client_that_never_catches_up_makes_nothing_grow() {
        let (mut client, pipe) = tokio::io::duplex(64 << 10);
        let outbox = Outbox::new(pipe);
        let (some, mut read) = (vec![b'x'; 64 << 10], vec![0; 64 << 10]);
        outbox.put(|out| out.extend_from_slice(&some));
        for _ in 0..200 {
            outbox.put(|out| out.extend_from_slice(&some));
            let sent = std::future::poll_fn(|poller| Poll::Ready(outbox.poll_send(poller))).await;
            assert!(sent.is_pending(), "something is left each time");
            client.read_exact(&mut read).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert!(outbox.pen().held.capacity() < 4 * MOST_HELD, "{}", outbox.pen().held.capacity());
    }
}
