//! Commands that take too much, in the native sandbox: each ends, the result names its bound, nothing is left, and this
//! process answers all the while.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use helve_core::{Cancel, Ended, Exit, LimitHit, OutputSink, ProcessLimits, SandboxChoice, Stream};
use pretty_assertions::assert_eq;

use crate::common::{count_running, job, output, unique_seconds, view, wait_for};

const MIB: u64 = 1 << 20;

/// Bounds that are soon reached.
const SMALL: ProcessLimits = ProcessLimits {
    open_files: 256,
    file_bytes: 512 * MIB,
    memory_bytes: 192 * MIB,
    processes: 64,
    cpu_seconds: 60,
    disk_bytes: 4096 * MIB,
    tmp_bytes: 32 * MIB,
};

/// Counts what comes out and keeps none of it.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicU64>);

impl OutputSink for Counter {
    fn chunk(&mut self, _stream: Stream, bytes: &[u8]) {
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
}

struct Run {
    ended: Ended,
    bytes: u64,
    took: Duration,
    /// How long another task of the same runtime had to wait, but for the worst twentieth: the machine may be busy with
    /// other things too.
    stalled: Duration,
}

/// Runs a command in a workspace of its own. Word by word, `NAP` becomes a number of seconds by which its processes are
/// found afterwards.
fn run_for(limits: ProcessLimits, command: &str, timeout: Duration) -> Run {
    let workspace = tempfile::tempdir().unwrap();
    let nap = unique_seconds();
    let command = command.replace("NAP", &nap);
    let counter = Counter::default();
    let backend = helve_sandbox::backend(&SandboxChoice::Native, view(workspace.path()), limits).unwrap();
    let (ended, took, stalled) = crate::common::block_on(async {
        let done = AtomicBool::new(false);
        let work = async {
            let start = Instant::now();
            let mut job = job(&command);
            job.timeout = timeout;
            let ended = backend.run(job, Box::new(counter.clone()), Cancel::never()).await;
            done.store(true, Ordering::Relaxed);
            (ended, start.elapsed())
        };
        let ping = async {
            let mut waits = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let start = Instant::now();
                tokio::time::sleep(Duration::from_millis(5)).await;
                waits.push(start.elapsed());
            }
            waits.sort_unstable();
            waits.get(waits.len().saturating_sub(1) * 19 / 20).copied().unwrap_or_default()
        };
        let ((ended, took), stalled) = tokio::join!(work, ping);
        (ended.unwrap(), took, stalled)
    });
    assert!(wait_for(Duration::from_secs(1), || count_running(&nap) == 0), "{command}: a process is left");
    Run { ended, bytes: counter.0.load(Ordering::Relaxed), took, stalled }
}

/// Runs a command that has to pass that bound.
fn passes(limits: ProcessLimits, command: &str, bound: LimitHit) -> Run {
    let run = run_for(limits, command, Duration::from_secs(30));
    assert_eq!((run.ended.limit, run.ended.exit), (Some(bound), Exit::Signal(9)), "{command}");
    assert!(run.stalled < Duration::from_millis(250), "{command}: stalled for {:?}", run.stalled);
    run
}

/// Whether there is a Python to write bombs in.
fn python() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    *THERE.get_or_init(|| {
        let there = std::path::Path::new("/usr/bin/python3").exists();
        if !there {
            println!("skipped what needs /usr/bin/python3");
        }
        there
    })
}

#[test]
fn one_process_takes_too_much_memory() {
    if python() {
        // It says of each mebibyte when it has it.
        let bomb = "exec /usr/bin/python3 -c 'import os
held = []
while True:
    held.append(b\"x\" * (1 << 20))
    os.write(1, b\".\")'";
        let run = passes(SMALL, bomb, LimitHit::Memory(192 * MIB));
        assert!((150..320).contains(&run.bytes), "it was ended at {} MiB", run.bytes);
    }
}

#[test]
fn many_processes_take_too_much_memory_together() {
    if python() {
        let bomb = "exec /usr/bin/python3 -c 'import os, time
for _ in range(40):
    if os.fork() == 0:
        held = b\"x\" * (12 << 20)
        time.sleep(600)
time.sleep(600)' NAP";
        passes(SMALL, bomb, LimitHit::Memory(192 * MIB));
    }
}

/// Shared pages are no private ones, and still take memory; but however many processes map them, only once.
#[test]
fn shared_memory_counts_once() {
    if python() {
        let shared = |size: u64, count: u32| {
            format!(
                "exec /usr/bin/python3 -c 'import mmap, os, time
held = mmap.mmap(-1, {size})
for at in range(0, {size}, 4096): held[at] = 1
for _ in range({count}):
    if os.fork() == 0:
        for at in range(0, {size}, 4096): held[at]
        time.sleep(1)
        os._exit(0)
time.sleep(1)' NAP"
            )
        };
        passes(SMALL, &shared(256 * MIB, 0), LimitHit::Memory(192 * MIB));
        let run = run_for(SMALL, &shared(64 * MIB, 5), Duration::from_secs(30));
        assert_eq!((run.ended.limit, run.ended.exit), (None, Exit::Code(0)));
    }
}

/// A process that hides itself from others is counted all the same.
#[test]
fn a_process_that_is_not_to_be_looked_at_is_counted() {
    if python() {
        let bomb = "exec /usr/bin/python3 -c 'import ctypes, mmap
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
held = mmap.mmap(-1, 1 << 30)
for at in range(0, 1 << 30, 4096): held[at] = 1'";
        passes(SMALL, bomb, LimitHit::Memory(192 * MIB));
    }
}

#[test]
fn a_fork_bomb_passes_the_bound_of_processes() {
    passes(SMALL, "bomb() { bomb | bomb & }; bomb; sleep NAP", LimitHit::Processes(64));
    passes(SMALL, "while :; do sleep NAP & done", LimitHit::Processes(64));
}

#[test]
fn threads_count_as_processes() {
    if python() {
        // The kernel may refuse one more before the init has looked.
        let bomb = "exec /usr/bin/python3 -c 'import threading, time
threading.stack_size(1 << 16)
while True:
    try: threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    except RuntimeError: pass'";
        passes(SMALL, bomb, LimitHit::Processes(64));
    }
}

/// Orphans end as children of the init. That keeps it busy, and must not keep it from looking.
#[test]
fn a_storm_of_orphans_does_not_blind_the_watch() {
    if python() {
        let bomb = "(while :; do (true &) ; done) & (while :; do (true &) ; done) &
exec /usr/bin/python3 -c 'import mmap
held = mmap.mmap(-1, 1 << 30)
for at in range(0, 1 << 30, 4096): held[at] = 1'";
        passes(SMALL, bomb, LimitHit::Memory(192 * MIB));
    }
}

#[test]
fn processor_time_is_added_up_over_all_processes() {
    let limits = ProcessLimits { cpu_seconds: 2, ..SMALL };
    let hog = "for i in 1 2 3 4; do (while :; do :; done) & done; wait";
    let run = passes(limits, hog, LimitHit::Cpu(2));
    assert!(run.took > Duration::from_millis(700), "{:?}", run.took);
    // Children that are gone count too.
    let short = "while :; do (i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done); done";
    passes(limits, short, LimitHit::Cpu(2));
}

#[test]
fn many_files_fill_the_disk() {
    let limits = ProcessLimits { disk_bytes: 64 * MIB, ..SMALL };
    let fill = "i=0; while :; do i=$((i+1)); head -c 4M /dev/zero > file$i; done";
    passes(limits, fill, LimitHit::Disk(64 * MIB));
}

#[test]
fn one_file_grows_too_large() {
    let limits = ProcessLimits { file_bytes: 16 * MIB, ..SMALL };
    let run = run_for(limits, "exec head -c 1G /dev/zero > big", Duration::from_secs(30));
    assert_eq!((run.ended.limit, run.ended.exit), (Some(LimitHit::File(16 * MIB)), Exit::Signal(25)));
    // The disk's bound is the nearer one here.
    let limits = ProcessLimits { disk_bytes: 16 * MIB, ..SMALL };
    let run = run_for(limits, "exec head -c 1G /dev/zero > big", Duration::from_secs(30));
    assert_eq!(run.ended.limit, Some(LimitHit::Disk(16 * MIB)));
}

#[test]
fn the_private_directory_is_full_before_memory_is() {
    let run = run_for(SMALL, "head -c 1G /dev/zero > /tmp/big; stat -c %s /tmp/big", Duration::from_secs(30));
    assert_eq!((run.ended.limit, run.ended.exit), (None, Exit::Code(0)));
    // Where it may hold more than the memory bound, what it holds is memory.
    let limits = ProcessLimits { tmp_bytes: 1024 * MIB, ..SMALL };
    let fill = "head -c 400M /dev/zero > /tmp/big; sleep NAP";
    passes(limits, fill, LimitHit::Memory(192 * MIB));
}

#[test]
fn a_flood_of_output_ends_at_the_deadline() {
    let run = run_for(SMALL, "yes", Duration::from_secs(1));
    assert_eq!((run.ended.exit, run.ended.limit), (Exit::TimedOut, None));
    assert!(run.bytes > MIB, "{}", run.bytes);
    assert!(run.stalled < Duration::from_millis(250), "{:?}", run.stalled);
    assert!(run.took < Duration::from_secs(3), "{:?}", run.took);
}

#[test]
fn background_processes_are_ended_and_counted() {
    let run = run_for(SMALL, "sleep NAP & sleep NAP & echo started", Duration::from_secs(30));
    assert_eq!((run.ended.exit, run.ended.left_running, run.bytes), (Exit::Code(0), 2, 8));
}

#[test]
fn everyday_work_passes_no_bound() {
    let workspace = tempfile::tempdir().unwrap();
    let work = "for i in 1 2 3 4 5 6 7 8; do (seq 20000 | sort -r | wc -l) & done; wait; sleep 0.2";
    assert_eq!(output(&SandboxChoice::Native, view(workspace.path()), work), "20000\n".repeat(8));
}
