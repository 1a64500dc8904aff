//! What stands ready: the zygote in use and the members of its pool, filled and emptied as `pool` says.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::begin::Wires;
use super::engine::Engine;
use super::member::{Member, Readiness};
use super::pool::{PoolSize, Sizing, Wanted};
use super::socket;
use super::wire::{Kind, Make};
use super::zygote::Zygote;

/// When members that were just ordered are likely to be ready. Most are used before anybody looks.
const PREPARED_AFTER: Duration = Duration::from_millis(3);
/// When groups of commands that are over are looked at again in which somebody still was.
const TIDY_AFTER: Duration = Duration::from_millis(20);
/// How often it is looked at the latest whether one has become ready that takes long.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What is not ready after this long never will be. To find out how a shell can be kept warm may take ten seconds.
const NEVER_READY: Duration = Duration::from_secs(15);

/// The zygote in use and its pool.
pub(super) struct Stock {
    pub(super) zygote: Option<Arc<Zygote>>,
    pub(super) sizing: Sizing,
    pub(super) warm: VecDeque<Arc<Member>>,
    pub(super) parked: VecDeque<Arc<Member>>,
    /// The last member that was made for the pool failed.
    pub(super) ailing: bool,
    /// For a member that is made for a call.
    pub(super) spare: Option<Wires>,
}

impl Stock {
    fn queue(&mut self, kind: Kind) -> &mut VecDeque<Arc<Member>> {
        if kind == Kind::Warm { &mut self.warm } else { &mut self.parked }
    }

    /// Takes the zygote and all that stands ready in it.
    pub(super) fn give_up(&mut self) -> (Option<Arc<Zygote>>, Vec<Arc<Member>>) {
        let idle = self.idle();
        (self.zygote.take(), idle)
    }

    /// Takes all that stands ready.
    pub(super) fn idle(&mut self) -> Vec<Arc<Member>> {
        self.warm.drain(..).chain(self.parked.drain(..)).collect()
    }

    /// How many of each kind should stand ready: where no shell can be kept warm, parked members stand in.
    fn targets(wanted: &Wanted, zygote: &Zygote) -> [(Kind, usize); 2] {
        let PoolSize { warm, parked } = wanted.size;
        if zygote.keeps_warm() {
            [(Kind::Warm, warm), (Kind::Parked, parked)]
        } else {
            [(Kind::Warm, 0), (Kind::Parked, warm + parked)]
        }
    }

    fn shrink(&mut self, wanted: &Wanted, zygote: &Zygote) -> Vec<Arc<Member>> {
        let mut dropped = Vec::new();
        for (kind, target) in Stock::targets(wanted, zygote) {
            let queue = self.queue(kind);
            let extra = queue.len().saturating_sub(target);
            dropped.extend(queue.drain(..extra));
        }
        dropped
    }

    fn missing(&mut self, wanted: &Wanted, zygote: &Zygote) -> Vec<Kind> {
        if self.ailing || wanted.crowded {
            return Vec::new();
        }
        let mut missing = Vec::new();
        for (kind, target) in Stock::targets(wanted, zygote) {
            let count = target.saturating_sub(self.queue(kind).len());
            missing.extend(std::iter::repeat_n(kind, count));
        }
        missing
    }
}

impl Engine {
    /// A call has been answered that began then. Whether the pool is to be tended; in a crowd that has time, and the reactor
    /// was told when to look at it.
    pub(super) fn ended(&self, began: Option<Instant>) -> bool {
        let now = Instant::now();
        let mut stock = self.stock();
        stock.ailing = false;
        stock.sizing.ended(began, now);
        !stock.sizing.is_crowded(now)
    }

    /// A member that stood ready, or was being made, is no more. No other is made before the next call: whatever went
    /// wrong would go wrong again at once.
    pub(super) fn lost_idle(&self, id: u64) {
        let mut stock = self.stock();
        stock.ailing = true;
        stock.warm.retain(|member| member.id != id);
        stock.parked.retain(|member| member.id != id);
        drop(stock);
        if let Some(member) = self.member(id) {
            member.failed_idle();
        }
        self.forget(id);
    }

    /// Drops what stands ready: it was made under an older guard.
    pub(super) fn drop_idle(&self, zygote: &Zygote) {
        let mut stock = self.stock();
        let same = stock.zygote.as_ref().is_some_and(|current| current.id == zygote.id);
        let idle = if same { stock.idle() } else { Vec::new() };
        drop(stock);
        self.forget_all(&idle);
    }

    /// Fills or empties the pool. When to do so again although nothing has happened.
    pub(super) fn tend(self: &Arc<Self>) -> Option<Instant> {
        let running = self.is_running();
        let mut stock = self.stock();
        let wanted = stock.sizing.wanted(Instant::now(), running);
        let Some(zygote) = stock.zygote.clone() else {
            return wanted.again.filter(|_| wanted.crowded);
        };
        if !wanted.zygote {
            drop(stock);
            self.discard(&zygote);
            return None;
        }
        let dropped = stock.shrink(&wanted, &zygote);
        stock.spare = if wanted.more { stock.spare.take().or_else(|| Wires::new(true).ok()) } else { None };
        // What is made before the wall stands would be outside of it.
        let missing = if zygote.is_settled() { stock.missing(&wanted, &zygote) } else { Vec::new() };
        drop(stock);
        if wanted.more && zygote.is_ready() && zygote.begin_fence() {
            self.fence(&zygote);
        }
        if wanted.more && zygote.is_settled() && zygote.starts_many() {
            zygote.load();
        }
        self.forget_all(&dropped);
        for kind in missing {
            let Ok((member, age)) = self.order_idle(&zygote, kind) else { break };
            let mut stock = self.stock();
            let current = stock.zygote.as_ref().is_some_and(|current| current.id == zygote.id);
            // A guard that is set from here on drops it with the others.
            if current && *zygote.orders() == age {
                stock.queue(kind).push_back(member);
            } else {
                drop(stock);
                self.forget(member.id);
            }
        }
        let unready = self.prepare_idle().map(|pause| Instant::now() + pause);
        // Whoever was in them is about to die.
        let busy = zygote.tidy(wanted.more).then(|| Instant::now() + TIDY_AFTER);
        wanted.again.into_iter().chain(unready).chain(busy).min()
    }

    /// Has the zygote load its shell, for the only call that it will have. It is not put behind a wall: the shell would not be.
    pub(super) fn load_for_one(&self) {
        if let Some(zygote) = self.stock().zygote.as_ref().filter(|zygote| zygote.begin_fence()) {
            zygote.load();
        }
    }

    /// Sees which members have become ready; their end wakes the reactor from then on. When to look again if some are not
    /// ready yet: the longer they take, the later.
    fn prepare_idle(&self) -> Option<Duration> {
        let mut again: Option<Duration> = None;
        let mut lost = Vec::new();
        // Held, so that none is taken meanwhile: what a member says to a call is not for this.
        let stock = self.stock();
        for member in stock.warm.iter().chain(&stock.parked).filter(|member| !member.is_watched()) {
            let mut look_after =
                |pause: Duration| again = Some(again.map_or(pause, |again| again.min(pause)));
            let age = member.since.elapsed();
            if age < PREPARED_AFTER {
                look_after(PREPARED_AFTER.saturating_sub(age));
                continue;
            }
            match member.readiness() {
                Readiness::Ready => self.watch_idle(member),
                Readiness::Preparing => match pause(age) {
                    Some(pause) => look_after(pause),
                    None => lost.push(member.id),
                },
                Readiness::Dead => lost.push(member.id),
            }
        }
        drop(stock);
        lost.into_iter().for_each(|id| self.lost_idle(id));
        again
    }

    /// Orders a member for the pool. With it, under which guard it is made.
    fn order_idle(&self, zygote: &Arc<Zygote>, kind: Kind) -> Result<(Arc<Member>, u64), Errno> {
        let (member, ends) = self.new_member(zygote, kind, Wires::new(true)?);
        let outputs = ends.outputs.iter().flat_map(|ends| ends.iter()).map(AsFd::as_fd);
        let fds: Vec<_> =
            std::iter::once(ends.talk.as_fd()).chain(outputs).chain(member.wall.descriptors()).collect();
        let make = Make { tag: Make::TAG, kind: kind as u32, id: member.id };
        let age = zygote.orders();
        match socket::send(zygote.control(), &[&make.to_bytes()], &fds) {
            Ok(()) => Ok((member, *age)),
            Err(errno) => {
                self.forget(member.id);
                Err(errno)
            }
        }
    }

    /// Builds the wall around a zygote on a thread of its own, and then has the pool tended.
    fn fence(self: &Arc<Self>, zygote: &Arc<Zygote>) {
        let (engine, fenced) = (Arc::clone(self), Arc::clone(zygote));
        let build = move || {
            fenced.fence(&engine.limits);
            drop(fenced);
            engine.wake();
        };
        if std::thread::Builder::new().name("helve-fence".to_owned()).spawn(build).is_err() {
            zygote.fence(&self.limits);
        }
    }
}

/// How long to wait before it is looked again whether a member has become ready that was ordered so long ago; none if it
/// is given up.
fn pause(age: Duration) -> Option<Duration> {
    (age < NEVER_READY).then(|| age.clamp(PREPARED_AFTER, LOOK_EVERY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_never_becomes_ready_is_looked_at_a_few_times_only() {
        let (mut age, mut looks) = (Duration::ZERO, 0);
        while let Some(pause) = pause(age) {
            (age, looks) = (age + pause, looks + 1);
        }
        assert!(looks < 30 && age <= NEVER_READY + LOOK_EVERY, "{looks} {age:?}");
    }
}
