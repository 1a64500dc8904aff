use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;

use super::*;
use crate::native::entries::Entries;
use crate::native::graveyard::Graveyard;
use crate::native::helper::{Process, Started};
use crate::native::zygote::Place;
use crate::plan::rules::{Rule, Rules};

/// The record of a zygote whose process does nothing, and the other end of its control socket.
fn zygote(graveyard: &Arc<Graveyard>) -> (Arc<Zygote>, OwnedFd) {
    let (control, theirs) = socket::pair().unwrap();
    let root = Rule { given: "/".into(), real: "/".into() };
    let rules = Rules {
        workspace: root,
        read_only: Vec::new(),
        read_write: Vec::new(),
        hidden: Vec::new(),
        denied: helve_core::DenyRead::new::<&str>(&[]).unwrap(),
    };
    let place = Place::of("/".as_ref()).unwrap();
    let sleep = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn();
    let pid = rustix::process::Pid::from_child(&sleep.unwrap());
    let started = Started { process: Process::of(pid).unwrap(), control };
    let zygote = Zygote::new(1, place, Entries::look(&rules), None, started, Arc::clone(graveyard));
    (Arc::new(zygote), theirs)
}

/// A member with a call, its other end of `talk`, and who waits for the call.
fn member(zygote: &Arc<Zygote>, kind: Kind) -> (Member, OwnedFd, oneshot::Receiver<Finish>) {
    let (talk, theirs) = socket::pair().unwrap();
    let member = Member::new(2, kind, Arc::clone(zygote), Wall::None, talk, [None, None], None);
    let (answer, finish) = oneshot::channel();
    member.occupy(Instant::now(), None, answer);
    (member, theirs, finish)
}

fn say(theirs: &OwnedFd, tag: u32, step: u32) {
    let numbers = [tag, 1, step, 0, 0, 0].map(u32::to_ne_bytes).concat();
    socket::send(theirs.as_fd(), &[&numbers], &[]).unwrap();
}

#[test]
fn a_zygote_that_is_given_up_is_not_dead() {
    let graveyard = Arc::default();
    let (zygote, _control) = zygote(&graveyard);
    let (member, _talk, _finish) = member(&zygote, Kind::Direct);
    zygote.give_up();
    assert_eq!(member.missing(), Missing::End);
    // Its own end of the socket is closed for both, so that says nothing about the other.
    assert!(member.kill());
    member.listen();
    assert_eq!(member.missing(), Missing::Word);
    // The descriptor of its process got lost: only the zygote's end is certain.
    member.made(None);
    assert_eq!(member.missing(), Missing::ZygotesDeath);
    zygote.kill();
    let mut watched =
        [rustix::event::PollFd::from_borrowed_fd(zygote.process(), rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut watched, None).unwrap();
    zygote.died();
    assert_eq!(member.missing(), Missing::Nothing);
    drop((member, zygote));
    graveyard.empty();
}

#[test]
fn a_member_of_the_pool_that_fails_before_it_has_begun_is_no_failure_of_the_call() {
    let graveyard = Arc::default();
    let (zygote, _control) = zygote(&graveyard);
    let (program, limits) = (Step::Program as u32, Step::Limits as u32);
    for (kind, ready, step, delivered) in [
        (Kind::Warm, false, Step::Process as u32, false),
        (Kind::Warm, true, program, false),
        // It runs already and cannot be watched.
        (Kind::Warm, true, limits, true),
        (Kind::Parked, false, program, false),
        (Kind::Parked, true, program, true),
        (Kind::Direct, false, program, true),
    ] {
        let (member, theirs, mut finish) = member(&zygote, kind);
        if ready {
            say(&theirs, Report::READY, 0);
            member.listen();
        }
        say(&theirs, Report::NOT_STARTED, step);
        member.listen();
        // What it reports is not yet its end.
        assert_eq!(member.missing(), Missing::Word, "{kind:?}");
        member.died();
        assert_eq!(member.missing(), Missing::Nothing, "{kind:?}");
        assert!(member.answer());
        let told = match finish.try_recv().unwrap() {
            Finish::Reported(_) => true,
            Finish::NotDelivered(_) => false,
            _ => panic!("{kind:?}"),
        };
        assert_eq!(told, delivered, "{kind:?} {ready} {step}");
    }
    // What the zygote cannot make for the pool it may make for the call.
    for (kind, step, again) in [
        (Kind::Warm, program, true),
        (Kind::Parked, Step::Process as u32, true),
        (Kind::Direct, Step::Process as u32, false),
        (Kind::Warm, Step::Guard as u32, false),
    ] {
        let (member, _theirs, mut finish) = member(&zygote, kind);
        member.refused(step, 1);
        assert!(member.answer());
        let finish = finish.try_recv().unwrap();
        assert_eq!(matches!(finish, Finish::NotDelivered(_)), again, "{kind:?}");
        assert_eq!(matches!(finish, Finish::Refused(..)), !again, "{kind:?}");
    }
    drop(zygote);
    graveyard.empty();
}

#[test]
fn after_two_warm_shells_in_a_row_that_fail_none_is_made() {
    let graveyard = Arc::default();
    let (zygote, _control) = zygote(&graveyard);
    let fail = || member(&zygote, Kind::Warm).0.failed_idle();
    fail();
    let (good, theirs, _finish) = member(&zygote, Kind::Warm);
    say(&theirs, Report::READY, 0);
    assert_eq!(good.readiness(), Readiness::Ready);
    good.failed_idle();
    fail();
    assert!(zygote.keeps_warm());
    fail();
    assert!(!zygote.keeps_warm());
    drop((good, zygote));
    graveyard.empty();
}
