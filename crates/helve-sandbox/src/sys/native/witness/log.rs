//! What was noted, in the member's slot: entries one after another, each thing once, with how often it was seen.
//!
//! The log only grows, to a bound; what there is no room for is not noted. So Helve hears of each thing when it is new, and
//! once more at the end, when it is known how often.

use std::net::IpAddr;

use libc::c_int;

use super::super::raw::syscall;
use super::text::{PATH_BYTES, Text};
use crate::native::notes::{Act, HEAD_BYTES, Kind, LOG_BYTES, TAG};

/// The most bytes of one note: a path and what is said of it.
const BODY_BYTES: usize = PATH_BYTES + 16;

/// What is noted.
pub(super) struct Body(Text<BODY_BYTES>);

impl Body {
    fn new(start: &[u8]) -> Body {
        let mut text = Text::new();
        // The start of every note fits.
        let _ = text.push(start);
        Body(text)
    }

    fn with(mut self, bytes: &[u8]) -> Body {
        let _ = self.0.push(bytes);
        self
    }

    /// A call by its number, with what is known of its arguments; whether the filter refuses it.
    pub(super) fn call(number: u32, told: [u32; 3], refused: bool) -> Body {
        let body = Body::new(&[Kind::Call as u8, u8::from(refused)]).with(&number.to_ne_bytes());
        told.iter().fold(body, |body, one| body.with(&one.to_ne_bytes()))
    }

    /// An address.
    pub(super) fn address(address: IpAddr, port: u16, datagram: bool) -> Body {
        let body = Body::new(&[Kind::Address as u8, u8::from(datagram)]).with(&port.to_ne_bytes());
        match address {
            IpAddr::V4(address) => body.with(&address.octets()),
            IpAddr::V6(address) => body.with(&address.octets()),
        }
    }

    /// A path, and whether something stands there inside. None if it is too long.
    pub(super) fn path(act: Act, stands: bool, path: &[u8]) -> Option<Body> {
        let mut body = Body::new(&[Kind::Path as u8, act as u8, u8::from(stands)]);
        body.0.push(path)?;
        Some(body)
    }
}

/// The log.
pub(super) struct Log<'a> {
    memory: &'a mut [u8; LOG_BYTES],
    length: usize,
    /// How much of it Helve knows.
    told: usize,
    /// Something was seen again since.
    again: bool,
}

impl<'a> Log<'a> {
    pub(super) fn new(memory: &'a mut [u8; LOG_BYTES]) -> Log<'a> {
        Log { memory, length: 0, told: 0, again: false }
    }

    pub(super) fn forget(&mut self) {
        (self.length, self.told, self.again) = (0, 0, false);
    }

    /// Counts a note, or adds it.
    pub(super) fn add(&mut self, body: &Body) {
        if self.count(body.0.bytes()).is_none() {
            self.append(body.0.bytes());
        }
    }

    /// Counts a note that is there.
    fn count(&mut self, body: &[u8]) -> Option<()> {
        let mut rest = self.memory.get_mut(..self.length)?;
        while let Some((head, after)) = rest.split_first_chunk_mut::<HEAD_BYTES>() {
            let [a, b, count @ ..] = head;
            let length = usize::from(u16::from_ne_bytes([*a, *b]));
            let (found, after) = after.split_at_mut_checked(length)?;
            if found == body {
                *count = u32::from_ne_bytes(*count).saturating_add(1).to_ne_bytes();
                self.again = true;
                return Some(());
            }
            rest = after;
        }
        None
    }

    /// Adds one, if there is room.
    fn append(&mut self, body: &[u8]) -> Option<()> {
        let end = self.length.checked_add(HEAD_BYTES + body.len())?;
        let room = self.memory.get_mut(self.length..end)?;
        let (head, rest) = room.split_first_chunk_mut::<HEAD_BYTES>()?;
        let [a, b, count @ ..] = head;
        [*a, *b] = u16::try_from(body.len()).ok()?.to_ne_bytes();
        *count = 1_u32.to_ne_bytes();
        rest.copy_from_slice(body);
        self.length = end;
        Some(())
    }

    /// Tells Helve what is new.
    pub(super) fn tell_new(&mut self, talk: c_int) {
        if self.told < self.length && send(talk, self.memory.get(self.told..self.length).unwrap_or_default())
        {
            self.told = self.length;
        }
    }

    /// Tells Helve everything, unless it knows.
    pub(super) fn tell_all(&mut self, talk: c_int) {
        if self.again || self.told < self.length {
            let _ = send(talk, self.memory.get(..self.length).unwrap_or_default());
        }
    }
}

/// Sends entries as one record. Whether they are on their way: what nobody takes is not waited for.
fn send(talk: c_int, entries: &[u8]) -> bool {
    let tag = TAG.to_ne_bytes();
    let pieces = [
        libc::iovec { iov_base: tag.as_ptr().cast_mut().cast(), iov_len: tag.len() },
        libc::iovec { iov_base: entries.as_ptr().cast_mut().cast(), iov_len: entries.len() },
    ];
    // SAFETY: all zero is a valid empty message header; the pointers are set below, and what they lead to lives through the
    // call and is only read.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = pieces.as_ptr().cast_mut();
        message.msg_iovlen = pieces.len() as _;
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        syscall!(libc::SYS_sendmsg, talk, &raw const message, flags).is_ok()
    }
}
