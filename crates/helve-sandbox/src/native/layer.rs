//! Commands that run over a layer: each has an engine of its own, whose zygote has laid one over the workspace.
//!
//! ```text
//! make_layer_ready ── an engine whose zygote is being made ─┐
//! over_layer ── that, or a new one ── one call ── its upper directories to the caller ── the engine is closed
//! ```
//!
//! A layer is used once, so an engine is too; from the second call on, another is made while the caller has its answer, and
//! stands ready until it is used or the backend goes. What is laid over a workspace that changes meanwhile may show old names, so
//! none is looked at before its call. Deliberately not here: how a layer is laid (`sys::native::layer`), and what is in it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use helve_core::{Cancel, Ended, Layer, LayerLinks, LayerPart, LimitHit, ProcessLimits, ToolError, View};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, Timespec};

use super::call::{self, Call};
use super::engine::Engine;
use super::helper::Started;
use super::records::RECORD_BYTES;
use super::wire::Told;
use super::{Native, PoolSize, failure, socket};
use crate::spawn;

/// How long a zygote may take to lay a layer.
const LAYING: Duration = Duration::from_secs(30);
/// How long whoever ran a command is likely to read its layer; what is made ready meanwhile would be in its way.
const READING: Duration = Duration::from_millis(5);
/// The most file systems in a workspace.
const MOST_NESTED: usize = 32;

/// Engines whose commands run over a layer.
#[derive(Default)]
pub(super) struct Engines {
    standing: Mutex<Standing>,
    /// To a thread that waits for the next chore, if one was ever needed.
    helper: Mutex<Option<SyncSender<Chore>>>,
}

#[derive(Default)]
struct Standing {
    /// Made for a call that is likely to come, with the size of its layer.
    ready: Option<(u64, Arc<Engine>)>,
    /// Had its call. It is closed with the next one, or with the backend: closing may wait a moment.
    used: Option<Arc<Engine>>,
    /// How many calls there were. A program that runs one command and ends pays for no second engine.
    calls: u64,
}

impl Engines {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a chore done while whoever asks goes on: by the thread that waits for one, or by a new one, which waits then.
    fn have_done(&self, chore: Chore) {
        if chore.is_none() {
            return;
        }
        let mut helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner);
        let chore = match &*helper {
            None => chore,
            Some(helper) => match helper.try_send(chore) {
                Ok(()) => return,
                Err(TrySendError::Full(chore) | TrySendError::Disconnected(chore)) => chore,
            },
        };
        // Without room for another it takes a chore only while it waits for one.
        let (to, chores) = sync_channel(0);
        let work = move || chore.and_then(&chores);
        if std::thread::Builder::new().name("helve-layer".to_owned()).spawn(work).is_ok() {
            *helper = Some(to);
        }
    }
}

/// What is done after a call.
#[derive(Default)]
struct Chore {
    /// For a call that is likely to come.
    prepared: Option<Arc<Engine>>,
    /// When that is begun.
    after: Duration,
    /// Those that had their call, or are not wanted.
    closed: [Option<Arc<Engine>>; 2],
}

impl Chore {
    fn is_none(&self) -> bool {
        self.prepared.is_none() && self.closed.iter().all(Option::is_none)
    }

    fn done(self) {
        if let Some(engine) = self.prepared {
            std::thread::sleep(self.after);
            engine.prepare();
            if !self.after.is_zero() {
                // There is time before its call.
                engine.load_for_one();
            }
        }
        self.closed.into_iter().flatten().for_each(|engine| engine.close());
    }

    /// This one, and then those that come until nobody can send one any more.
    fn and_then(self, others: &Receiver<Chore>) {
        self.done();
        others.iter().for_each(Chore::done);
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        let Standing { ready, used, .. } = std::mem::take(&mut *self.standing());
        for engine in ready.into_iter().map(|(_, engine)| engine).chain(used) {
            engine.close();
        }
    }
}

impl Native {
    fn layered(&self, bytes: u64) -> Result<Arc<Engine>, ToolError> {
        let bound = |limit: u64| limit.min(bytes);
        // The free space of the workspace's file system is that of the layer.
        let limits = ProcessLimits { disk_bytes: bound(self.limits.disk_bytes), ..self.limits };
        let engine = Engine::new(
            self.view.clone(),
            Arc::clone(&self.rules),
            limits,
            PoolSize::NONE,
            Some(bytes),
            true,
        );
        engine.map_err(spawn::no_process)
    }

    /// Has an engine made for a call that is likely to follow, unless there is one.
    pub(super) fn make_layer_ready(&self, bytes: u64) {
        let mut standing = self.layered.standing();
        let (engine, old) = self.next(&mut standing, bytes);
        drop(standing);
        self.layered.have_done(Chore { prepared: engine, closed: [old, None], ..Chore::default() });
    }

    /// An engine that is to be prepared, unless there is one, and the one of another size whose place it takes.
    fn next(&self, standing: &mut Standing, bytes: u64) -> (Option<Arc<Engine>>, Option<Arc<Engine>>) {
        if standing.ready.as_ref().is_some_and(|(of, _)| *of == bytes) {
            return (None, None);
        }
        // An error comes again in the call.
        let Ok(engine) = self.layered(bytes) else { return (None, None) };
        let old = standing.ready.replace((bytes, Arc::clone(&engine)));
        (Some(engine), old.map(|(_, old)| old))
    }

    /// Runs a call over a layer.
    pub(super) async fn over_layer(
        &self,
        call: Call,
        bytes: u64,
        cancel: &Cancel,
    ) -> Result<(Ended, Layer), ToolError> {
        let ready = self.layered.standing().ready.take();
        let engine = match ready {
            Some((of, engine)) if of == bytes => engine,
            Some((_, other)) => {
                self.layered.have_done(Chore { closed: [Some(other), None], ..Chore::default() });
                self.layered(bytes)?
            }
            None => self.layered(bytes)?,
        };
        let since = file_time();
        let ended = call::run(&engine, call, cancel, |fenced| self.layers(fenced)).await;
        let (parts, links) = engine.take_layer();
        self.retire(engine, bytes);
        let mut ended = ended?;
        ended.sandbox.layers.push("overlay".to_owned());
        let over = match ended.limit {
            Some(LimitHit::Disk(limit)) => limit == bytes,
            None => parts.first().is_some_and(|part| is_full(&part.upper, bytes)),
            _ => false,
        };
        if over {
            ended.limit = Some(LimitHit::Layer(bytes));
        }
        Ok((ended, Layer { parts, since, links }))
    }

    /// Lets an engine go that had its call. Where there was one before, there will be another, which has its engine made.
    fn retire(&self, engine: Arc<Engine>, bytes: u64) {
        let mut standing = self.layered.standing();
        let used = standing.used.replace(engine);
        standing.calls = standing.calls.saturating_add(1);
        let (next, old) = if standing.calls > 1 { self.next(&mut standing, bytes) } else { (None, None) };
        drop(standing);
        self.layered.have_done(Chore { prepared: next, after: READING, closed: [used, old] });
    }
}

/// Now, as file systems write it: a change that comes later has no earlier time.
fn file_time() -> SystemTime {
    let Timespec { tv_sec, tv_nsec } = rustix::time::clock_gettime(ClockId::RealtimeCoarse);
    let nanos = u32::try_from(tv_nsec).unwrap_or_default();
    let since = Duration::new(u64::try_from(tv_sec).unwrap_or_default(), nanos);
    SystemTime::UNIX_EPOCH + since
}

/// How large the file system is that holds a layer: somewhat larger than it may be, so that a command that goes beyond is
/// ended for that before it is told that a disk is full.
pub(super) fn size(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 8).saturating_add(16 << 20)
}

/// Whether a layer holds as much as it may: then something was not written to its end.
fn is_full(upper: &OwnedFd, bytes: u64) -> bool {
    rustix::fs::fstatvfs(upper).is_ok_and(|stat| {
        let used = stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(stat.f_frsize);
        used >= bytes || stat.f_favail == 0
    })
}

/// What tells the names of a file in a layer from each other, and which of them are closed.
pub(super) fn links(view: &View, workspace: &Path, seen: Option<OwnedFd>) -> LayerLinks {
    let places = view.hidden.iter().chain(&view.read_only);
    let closed = places.filter_map(|place| place.strip_prefix(workspace).ok()).map(Path::to_owned).collect();
    LayerLinks { seen, protected: view.protected.clone(), deny_read: view.deny_read.clone(), closed }
}

/// What a zygote gives of its layer.
pub(super) struct Given {
    pub(super) parts: Vec<LayerPart>,
    /// What commands see of the workspace.
    pub(super) merged: OwnedFd,
}

/// Waits until a zygote has laid its layer. To be called before anybody else hears it.
pub(super) fn hear(started: &Started, nested: Vec<PathBuf>) -> Result<Given, ToolError> {
    let until = std::time::Instant::now() + LAYING;
    let mut parts = Vec::new();
    let mut places = std::iter::once(PathBuf::new()).chain(nested);
    let mut merged = None;
    let lost = || {
        started.process.kill();
        failure::never_began()
    };
    loop {
        let mut bytes = [0; RECORD_BYTES];
        let (count, fd) = match socket::receive(started.control.as_fd(), &mut bytes) {
            Ok((0, _)) => return Err(lost()),
            Ok(received) => received,
            Err(Errno::AGAIN) => {
                let left = until.saturating_duration_since(std::time::Instant::now());
                let pause = Timespec {
                    tv_sec: i64::try_from(left.as_secs()).unwrap_or_default(),
                    tv_nsec: left.subsec_nanos().into(),
                };
                let mut watched = [PollFd::new(&started.control, PollFlags::IN)];
                match rustix::event::poll(&mut watched, Some(&pause)) {
                    Ok(0) => return Err(lost()),
                    Ok(_) | Err(Errno::INTR) => continue,
                    Err(errno) => return Err(spawn::no_process(errno.into())),
                }
            }
            Err(_) => return Err(lost()),
        };
        let Some(told) = bytes.get(..count).and_then(Told::from_bytes) else { continue };
        match (told.tag, fd) {
            (Told::UPPER, Some(upper)) => {
                let path = places.next().ok_or_else(lost)?;
                parts.push(LayerPart { path, upper });
            }
            (Told::MERGED, Some(fd)) => merged = Some(fd),
            (Told::READY, _) => {
                let merged = merged.filter(|_| places.next().is_none()).ok_or_else(lost)?;
                return Ok(Given { parts, merged });
            }
            (Told::BROKEN, _) => {
                started.process.kill();
                return Err(failure::refused(told.step, told.errno));
            }
            _ => {}
        }
    }
}

/// The kernel's table of mounts, which tells when it has changed.
pub(super) struct Mounts(OwnedFd);

impl Mounts {
    pub(super) fn open() -> io::Result<Mounts> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Mounts(rustix::fs::open("/proc/self/mountinfo", flags, Mode::empty())?))
    }

    /// Whether something was mounted or unmounted since it was opened, or since this was asked the last time.
    pub(super) fn changed(&self) -> bool {
        let mut watched = [PollFd::new(&self.0, PollFlags::PRI)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut watched, Some(&now)) != Ok(0)
    }
}

/// The directories in a workspace at which other file systems are mounted, relative to it, the outer first.
pub(super) fn nested(workspace: &Path) -> io::Result<Vec<PathBuf>> {
    let table = fs::read("/proc/self/mountinfo")?;
    let mut nested: Vec<PathBuf> = Vec::new();
    for line in table.split(|byte| *byte == b'\n') {
        let Some(place) = line.split(|byte| *byte == b' ').nth(4) else { continue };
        let place = PathBuf::from(std::ffi::OsString::from_vec(unescaped(place)));
        let Ok(inside) = place.strip_prefix(workspace) else { continue };
        if !inside.as_os_str().is_empty() && !nested.iter().any(|known| known == inside) {
            nested.push(inside.to_owned());
        }
    }
    nested.sort_unstable_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
    if nested.len() > MOST_NESTED {
        return Err(io::Error::other(format!(
            "more than {MOST_NESTED} file systems are mounted in the workspace"
        )));
    }
    Ok(nested)
}

/// A path as the kernel's table of mounts writes it: a backslash and three octal digits stand for a byte.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .filter(|digits| *first == b'\\' && digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        match digits {
            Some(digits) => {
                bytes.push(digits.iter().fold(0_u8, |number, digit| (number << 3) | (digit - b'0')));
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_table_of_mounts_is_read_as_it_is() {
        assert_eq!(unescaped(br"/a\040b\134c\011"), b"/a b\\c\t");
        assert_eq!(unescaped(br"/a\04"), br"/a\04");
    }
}
