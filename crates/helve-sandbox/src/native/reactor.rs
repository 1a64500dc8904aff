//! The one thread that sees to every call of a backend which is not over in a moment: it moves output into sinks, hears
//! how calls end and answers them. After any call it tends the pool.
//!
//! In: events of sockets, pipes and processes. Out: answers. A short call is heard and answered by its own task (`call`),
//! and wakes this thread once, when it is over. Not here: deadlines; whoever waits for an answer ends the call, and that
//! shows here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};

use super::engine::{CONTROL, ENDED, EVENT_BITS, Engine, PROCESS, STDERR, STDOUT, TALK, WAKE};
use super::member::{Member, Missing};
use super::outlet::{self, BUFFER_BYTES, Bell};
use super::wire::Told;
use super::zygote::Zygote;

/// How many events are taken at a time.
const MOST_EVENTS: usize = 32;
/// How often what is about to end is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long calls that nobody waits for are followed after the backend was closed.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Serves until the backend is closed.
pub(super) fn run(engine: &Arc<Engine>) {
    let mut reactor = Reactor { engine, buffer: vec![0; BUFFER_BYTES] };
    let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; MOST_EVENTS];
    let mut again = None;
    let mut closed = None;
    loop {
        let count = epoll::wait(engine.epoll(), &mut events, timeout(again).as_ref()).unwrap_or(0);
        for event in events.iter().take(count) {
            let data = event.data.u64();
            reactor.handle(data >> EVENT_BITS, data & ((1 << EVENT_BITS) - 1));
        }
        for member in engine.take_calls() {
            reactor.take_over(&member);
        }
        if engine.is_closing() {
            let since = *closed.get_or_insert_with(Instant::now);
            if !engine.is_running() || since.elapsed() > LAST_WAIT {
                break;
            }
            again = Some(Instant::now() + LOOK_EVERY);
            continue;
        }
        let answered = engine.take_answered();
        if !answered.is_empty() {
            reactor.catch_up();
        }
        again = engine.tend();
        drop(answered);
    }
    drop(reactor);
    engine.clear_for_good();
    engine.has_closed();
}

fn timeout(again: Option<Instant>) -> Option<Timespec> {
    let left = again?.saturating_duration_since(Instant::now());
    // Rounded up, so that it has passed when the wait is over.
    Timespec::try_from(left + Duration::from_millis(1)).ok()
}

struct Reactor<'a> {
    engine: &'a Arc<Engine>,
    buffer: Vec<u8>,
}

impl Reactor<'_> {
    fn handle(&mut self, id: u64, what: u64) {
        if what == WAKE {
            return self.engine.woken();
        }
        if what == CONTROL || what == ENDED {
            if let Some(zygote) = self.engine.zygote_of(id) {
                if what == ENDED {
                    zygote.died();
                }
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
            TALK => drop(member.listen()),
            STDOUT | STDERR => {
                return self.pump(&member, usize::from(what == STDERR));
            }
            PROCESS => member.died(),
            _ => return,
        }
        self.settle(&member);
    }

    /// Sees to a call from now on.
    fn take_over(&mut self, member: &Arc<Member>) {
        if member.missing() == Missing::End && self.engine.follow(member).is_err() {
            // Nothing would ever be seen of it.
            self.engine.kill(member);
            self.engine.finish(member);
            return;
        }
        self.settle(member);
    }

    /// Moves some output into the member's sink; has that done elsewhere from then on, if it may take long.
    fn pump(&mut self, member: &Arc<Member>, index: usize) {
        if member.is_apart() {
            return;
        }
        let mut outlet = member.outlet();
        outlet.pump(index, &mut self.buffer);
        let (failed, slow) = (outlet.has_failed(), outlet.is_slow());
        drop(outlet);
        if failed {
            self.engine.kill(member);
        } else if slow {
            // Where no thread can be had it stays here.
            let _ = self.set_apart(member);
        }
    }

    fn set_apart(&self, member: &Arc<Member>) -> std::io::Result<()> {
        let bell = Arc::new(Bell::new()?);
        let (engine, served, rung) = (Arc::clone(self.engine), Arc::clone(member), Arc::clone(&bell));
        let serve = move || outlet::serve_apart(&engine, &served, &rung);
        // Held until it is settled who serves it.
        let outlet = member.outlet();
        std::thread::Builder::new().name("helve-output".to_owned()).spawn(serve)?;
        member.set_apart(bell);
        for (_, pipe) in outlet.pipes() {
            let _ = epoll::delete(self.engine.epoll(), pipe);
        }
        Ok(())
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
            Missing::ZygotesDeath => member.zygote.kill(),
        }
    }

    fn answer(&mut self, member: &Arc<Member>) {
        if self.engine.member(member.id).is_none() {
            return;
        }
        if member.ring() {
            return;
        }
        member.outlet().drain(&mut self.buffer);
        self.engine.finish(member);
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
        if zygote.is_given_up() {
            self.engine.discard(zygote);
        }
        let members = self.engine.members_of(zygote);
        let mut wanted = zygote.awaits_guard();
        for member in &members {
            match member.missing() {
                Missing::Nothing => self.answer(member),
                Missing::Death => self.engine.watch(member),
                Missing::ZygotesDeath => zygote.kill(),
                Missing::End | Missing::Word => wanted |= member.wants_word(),
            }
        }
        // One that says no more would wake the reactor for ever.
        let _ =
            if zygote.is_mute() { self.engine.deafen(zygote) } else { self.engine.listen(zygote, wanted) };
    }

    /// Takes what the zygote in use has said meanwhile; it wakes nobody by itself.
    fn catch_up(&mut self) {
        if let Some(zygote) = self.engine.zygote_in_use() {
            self.hear(&zygote);
        }
    }
}
