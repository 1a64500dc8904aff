//! The one thread that serves every call of a backend: it moves output into sinks, hears how calls end, answers them,
//! and then tends the pool.
//!
//! In: events of sockets, pipes and processes. Out: answers. Nothing of a member that stands ready wakes it, so a call
//! costs it one or two wake-ups. Not here: deadlines; whoever waits for an answer ends the call, and that shows here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};

use super::engine::{CONTROL, EVENT_BITS, Engine, PROCESS, STDERR, STDOUT, TALK, WAKE};
use super::member::{BUFFER_BYTES, Member, Missing};
use super::wire::Told;
use super::zygote::{self, Zygote};

/// How many events are taken at a time.
const MOST_EVENTS: usize = 32;
/// How often what is about to end is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long calls that nobody waits for are followed after the backend was closed.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Serves until the backend is closed.
pub(super) fn run(engine: &Arc<Engine>) {
    let mut reactor = Reactor { engine, buffer: vec![0; BUFFER_BYTES], answered: false, retired: Vec::new() };
    let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; MOST_EVENTS];
    let mut again = None;
    let mut closed = None;
    loop {
        let count = epoll::wait(engine.epoll(), &mut events, timeout(again).as_ref()).unwrap_or(0);
        for event in events.iter().take(count) {
            let data = event.data.u64();
            reactor.handle(data >> EVENT_BITS, data & ((1 << EVENT_BITS) - 1));
        }
        if engine.is_closing() {
            let since = *closed.get_or_insert_with(Instant::now);
            if !engine.is_running() || since.elapsed() > LAST_WAIT {
                break;
            }
            again = Some(Instant::now() + LOOK_EVERY);
            continue;
        }
        if std::mem::take(&mut reactor.answered) {
            reactor.catch_up();
        }
        let dying = zygote::reap(engine.graveyard()).then(|| Instant::now() + LOOK_EVERY);
        again = engine.tend().into_iter().chain(dying).min();
        reactor.retired.clear();
    }
    drop(reactor);
    engine.clear();
    engine.has_closed();
    engine.bury();
}

fn timeout(again: Option<Instant>) -> Option<Timespec> {
    let left = again?.saturating_duration_since(Instant::now());
    // Rounded up, so that it has passed when the wait is over.
    Timespec::try_from(left + Duration::from_millis(1)).ok()
}

struct Reactor<'a> {
    engine: &'a Arc<Engine>,
    buffer: Vec<u8>,
    /// A call was answered since the pool was tended.
    answered: bool,
    /// Members whose calls were answered since then.
    retired: Vec<Arc<Member>>,
}

impl Reactor<'_> {
    fn handle(&mut self, id: u64, what: u64) {
        if what == WAKE {
            return self.engine.woken();
        }
        if what == CONTROL {
            if let Some(zygote) = self.engine.zygote_of(id) {
                self.hear(&zygote);
            }
            return;
        }
        let Some(member) = self.engine.member(id) else { return };
        if member.is_idle() {
            // One that stands ready has nothing to say; it has died.
            return self.engine.lost_idle(id);
        }
        match what {
            TALK => member.listen(),
            STDOUT | STDERR => {
                member.pump(usize::from(what == STDERR), &mut self.buffer);
                if member.sink_failed() {
                    self.engine.kill(&member);
                }
                return;
            }
            PROCESS => member.died(),
            _ => return,
        }
        self.settle(&member);
    }

    /// Answers the member's call, or sees to it that what is missing for that wakes the reactor.
    fn settle(&mut self, member: &Arc<Member>) {
        if member.missing() == Missing::Word {
            self.hear(&member.zygote);
        }
        match member.missing() {
            Missing::Nothing => self.answer(member),
            Missing::End => {}
            Missing::Word => drop(self.engine.listen(&member.zygote, true)),
            Missing::Death => self.engine.watch(member),
        }
    }

    fn answer(&mut self, member: &Arc<Member>) {
        if self.engine.member(member.id).is_none() {
            return;
        }
        member.drain(&mut self.buffer);
        if !member.answer() {
            // Nobody waits, so nobody else looks at what the command left: dropping the mark does.
            drop(member.abandoned());
        }
        self.engine.forget(member.id);
        // Whoever was answered lets go of it first, so that closing its descriptors is not on his way.
        self.retired.push(Arc::clone(member));
        self.engine.ended();
        self.answered = true;
    }

    /// Takes everything that a zygote has said.
    fn hear(&mut self, zygote: &Arc<Zygote>) {
        while let Some((told, fd)) = zygote.hear() {
            zygote.learn(&told);
            match (told.tag, self.engine.member(told.id)) {
                (Told::MADE, Some(member)) => member.made(fd),
                (Told::FAILED, Some(member)) => {
                    member.refused(told.step, told.errno);
                    if member.is_idle() {
                        self.engine.lost_idle(member.id);
                    }
                }
                _ => {}
            }
        }
        if zygote.is_gone() {
            self.engine.discard(zygote);
        }
        let members = self.engine.members_of(zygote);
        let mut wanted = zygote.awaits_guard();
        for member in &members {
            match member.missing() {
                Missing::Nothing => self.answer(member),
                Missing::Death => self.engine.watch(member),
                Missing::End | Missing::Word => wanted |= member.wants_word(),
            }
        }
        // One that has ended would wake the reactor for ever.
        let _ =
            if zygote.is_gone() { self.engine.deafen(zygote) } else { self.engine.listen(zygote, wanted) };
    }

    /// Takes what the zygote in use has said meanwhile; it wakes nobody by itself.
    fn catch_up(&mut self) {
        if let Some(zygote) = self.engine.zygote_in_use() {
            self.hear(&zygote);
        }
    }
}
