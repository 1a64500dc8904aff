//! What is said on standard error, beside what other processes say there.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

use pretty_assertions::assert_eq;

use crate::world::World;

/// The writes to standard error, one by one: a socket of messages keeps them apart.
fn writes(world: &World, args: &[&str]) -> Vec<String> {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let status = world.helve(args).stdout(Stdio::null()).stderr(OwnedFd::from(theirs)).status().unwrap();
    assert!(!status.success(), "{args:?}");
    ours.set_nonblocking(true).unwrap();
    let mut piece = vec![0; 64 << 10];
    let next = || ours.recv(&mut piece).ok().map(|read| String::from_utf8_lossy(&piece[..read]).into_owned());
    std::iter::from_fn(next).collect()
}

#[test]
fn each_message_is_one_write() {
    let world = World::new();
    let cases: [&[&str]; 4] =
        [&["log", "absent"], &["call", "--oops"], &["sandbox", "--oops"], &["agent", "x"]];
    for args in cases {
        let writes = writes(&world, args);
        assert_eq!(writes.len(), 1, "{args:?}: {writes:#?}");
        assert!(writes[0].starts_with("error: ") && writes[0].ends_with('\n'), "{args:?}: {writes:#?}");
    }
}
