//! Records and descriptors through a `SOCK_SEQPACKET` socket. Nothing here waits: a socket that is full or empty says so.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// The most descriptors that one message carries: talk, two outputs, three streams, a file, two of a control group.
const MOST_DESCRIPTORS: usize = 9;

/// Both ends of a new socket. They close themselves at exec.
pub(super) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends one record made of several parts, with descriptors.
pub(super) fn send(socket: BorrowedFd<'_>, parts: &[&[u8]], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::TOOMANYREFS);
    }
    let mut slices = [IoSlice::new(&[]); 4];
    for (slice, part) in slices.iter_mut().zip(parts) {
        *slice = IoSlice::new(part);
    }
    let slices = slices.get(..parts.len()).ok_or(Errno::TOOBIG)?;
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::io::retry_on_intr(|| rustix::net::sendmsg(socket, slices, &mut ancillary, flags)).map(drop)
}

/// Takes one record and at most one descriptor. No bytes mean that the other side is gone. `CONNRESET` means, once, that
/// it went and left something unread; what it said itself comes after that.
pub(super) fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut slices = [IoSliceMut::new(bytes)];
    let received =
        rustix::io::retry_on_intr(|| rustix::net::recvmsg(socket, &mut slices, &mut ancillary, flags))?;
    let mut fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((received.bytes, fds.next()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn parts_arrive_as_one_record_with_their_descriptor() {
        let (here, there) = pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        send(here.as_fd(), &[b"ab", b"", b"c"], &[writer.as_fd()]).unwrap();
        drop(writer);
        send(here.as_fd(), &[b"next"], &[]).unwrap();
        let mut bytes = [0; 8];
        let (count, fd) = receive(there.as_fd(), &mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"abc");
        let mut writer = std::fs::File::from(fd.unwrap());
        writer.write_all(b"through").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        let (count, fd) = receive(there.as_fd(), &mut bytes).unwrap();
        assert_eq!((&bytes[..count], fd.is_none()), (&b"next"[..], true));
        assert_eq!(receive(there.as_fd(), &mut bytes).err(), Some(Errno::AGAIN));
        drop(here);
        assert_eq!(receive(there.as_fd(), &mut bytes).map(|(count, _)| count), Ok(0));
        assert_eq!(send(there.as_fd(), &[b"x"], &[]).err(), Some(Errno::PIPE));
        // The last words of a side that went without reading are heard.
        let (here, there) = pair().unwrap();
        send(here.as_fd(), &[b"order"], &[]).unwrap();
        send(there.as_fd(), &[b"broken"], &[]).unwrap();
        drop(there);
        assert_eq!(receive(here.as_fd(), &mut bytes).err(), Some(Errno::CONNRESET));
        let (count, _) = receive(here.as_fd(), &mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"broken");
    }
}
