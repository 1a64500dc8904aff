use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use pretty_assertions::assert_eq;

use super::processes::tests::{add, stat_line};
use super::*;

const MIB: u64 = 1 << 20;

fn limits() -> ProcessLimits {
    ProcessLimits {
        open_files: 100,
        file_bytes: u64::MAX,
        memory_bytes: 64 * MIB,
        processes: 20,
        cpu_seconds: 10,
        disk_bytes: u64::MAX,
        tmp_bytes: 1,
    }
}

fn watch(root: &Path, limits: &ProcessLimits) -> Watch {
    let processes = Processes::new(OwnedFd::from(fs::File::open(root).unwrap()));
    Watch::of(limits, processes, -1, -1)
}

fn status(private: u64, shared: u64) -> String {
    format!("RssAnon:\t{} kB\nRssShmem:\t{} kB\nVmSwap:\t0 kB\n", private >> 10, shared >> 10)
}

/// Looks without waiting until it is time.
fn look(watch: &mut Watch) -> Option<Bound> {
    watch.due_ms = 0;
    watch.tick()
}

#[test]
fn a_quiet_command_is_looked_at_seldom() {
    let root = tempfile::tempdir().unwrap();
    add(root.path(), 2, &stat_line("sh", [0; 4], 1, 1), "");
    let mut limits = limits();
    limits.processes = 1000;
    let mut watch = watch(root.path(), &limits);
    assert!((1..=5).contains(&watch.next_ms()), "{}", watch.next_ms());
    assert_eq!((watch.tick(), watch.looks), (None, 0), "too early");
    std::thread::sleep(std::time::Duration::from_millis(6));
    assert_eq!(watch.next_ms(), 0);
    assert_eq!((watch.tick(), watch.looks), (None, 1));
    assert!(watch.next_ms() > 15, "{}", watch.next_ms());
}

#[test]
fn little_that_is_left_is_looked_at_soon() {
    for (bytes, processes, pause) in [
        (u64::MAX, u64::MAX, LATEST_MS),
        (20 * MIB, u64::MAX, 10),
        (u64::MAX, 160, 10),
        (MIB, 1, SOONEST_MS),
        (0, 0, SOONEST_MS),
    ] {
        assert_eq!(Left { bytes, processes }.pause(), pause, "{bytes} {processes}");
    }
}

#[test]
fn private_memory_passes_the_bound() {
    let root = tempfile::tempdir().unwrap();
    let pages = 40 * MIB / 4096;
    add(root.path(), 2, &stat_line("a", [0; 4], 1, pages), &status(40 * MIB, 0));
    let mut watch = watch(root.path(), &limits());
    assert_eq!(look(&mut watch), None);
    // The same pages of a file in both are resident in both, and take no memory of theirs.
    add(root.path(), 3, &stat_line("b", [0; 4], 1, pages), &status(MIB, 0));
    assert_eq!(look(&mut watch), None);
    add(root.path(), 3, &stat_line("b", [0; 4], 1, pages), &status(25 * MIB, 0));
    assert_eq!(look(&mut watch), Some(Bound::Memory));
}

#[test]
fn swapped_memory_is_found_after_some_looks() {
    let root = tempfile::tempdir().unwrap();
    let swapped = "RssAnon:\t4 kB\nRssShmem:\t0 kB\nVmSwap:\t1000000 kB\n";
    add(root.path(), 2, &stat_line("a", [0; 4], 1, 1), swapped);
    let mut watch = watch(root.path(), &limits());
    let looks: Vec<_> = (0..EXACT_EVERY).map(|_| look(&mut watch)).collect();
    assert_eq!(looks.last(), Some(&Some(Bound::Memory)));
}

#[test]
fn shared_memory_counts_once() {
    let root = tempfile::tempdir().unwrap();
    let pages = 40 * MIB / 4096;
    for pid in [2, 3] {
        add(root.path(), pid, &stat_line("a", [0; 4], 1, pages), &status(0, 40 * MIB));
        fs::write(root.path().join(format!("{pid}/smaps_rollup")), "Pss_Shmem: 20480 kB\n").unwrap();
    }
    let mut watch = watch(root.path(), &limits());
    assert_eq!(look(&mut watch), None);
    // A process that hides how it shares counts whole.
    fs::remove_file(root.path().join("2/smaps_rollup")).unwrap();
    fs::remove_file(root.path().join("3/smaps_rollup")).unwrap();
    assert_eq!(look(&mut watch), Some(Bound::Memory));
}

#[test]
fn what_a_process_has_in_common_with_its_children_counts_once() {
    let root = tempfile::tempdir().unwrap();
    let pages = 40 * MIB / 4096;
    for pid in [2, 3, 4, 5] {
        add(root.path(), pid, &stat_line("a", [0; 4], 1, pages), &status(40 * MIB, 0));
        fs::write(root.path().join(format!("{pid}/smaps_rollup")), "Pss_Anon: 10240 kB\nSwapPss: 0 kB\n")
            .unwrap();
    }
    let mut watch = watch(root.path(), &limits());
    assert_eq!(look(&mut watch), None);
    // One of them has written to its pages, and has them for itself.
    fs::write(root.path().join("5/smaps_rollup"), "Pss_Anon: 40960 kB\nSwapPss: 0 kB\n").unwrap();
    assert_eq!(look(&mut watch), Some(Bound::Memory));
}

#[test]
fn threads_pass_the_bound_of_processes() {
    let root = tempfile::tempdir().unwrap();
    add(root.path(), 1, &stat_line("init", [0; 4], 1, 1), "");
    add(root.path(), 2, &stat_line("a", [0; 4], 19, 1), "");
    add(root.path(), 3, &stat_line("b", [0; 4], 1, 1), "");
    let mut watch = watch(root.path(), &limits());
    assert_eq!(look(&mut watch), None);
    assert!(watch.next_ms() < 25);
    add(root.path(), 4, &stat_line("c", [0; 4], 1, 1), "");
    assert_eq!(look(&mut watch), Some(Bound::Processes));
}

#[test]
fn processor_time_is_proved_by_two_looks() {
    let root = tempfile::tempdir().unwrap();
    let mut watch = watch(root.path(), &limits());
    let mut used = |ticks| {
        add(root.path(), 2, &stat_line("a", [ticks, 0, 0, 0], 1, 1), "");
        look(&mut watch)
    };
    assert_eq!(used(1099), None);
    assert_eq!(used(1100), None);
    assert_eq!(used(1099), None);
    assert_eq!(used(1100), None);
    assert_eq!(used(1150), Some(Bound::Cpu));
}

#[test]
fn space_that_is_taken_passes_the_bound_of_the_disk() {
    let root = tempfile::tempdir().unwrap();
    let workspace = tempfile::tempdir().unwrap();
    let dir = fs::File::open(workspace.path()).unwrap();
    let mut limits = limits();
    limits.disk_bytes = 32 * MIB;
    let processes = Processes::new(OwnedFd::from(fs::File::open(root.path()).unwrap()));
    let mut watch = Watch::of(&limits, processes, dir.as_raw_fd(), -1);
    // As if the space had been taken since: what others write to this disk meanwhile must not decide.
    watch.free_at_start -= 16 * MIB;
    assert_eq!(watch.disk().map(|left| left > 0), Ok(true));
    watch.free_at_start += 4096 * MIB;
    assert_eq!(look(&mut watch), Some(Bound::Disk));
}

#[test]
fn the_private_file_system_is_memory() {
    let root = tempfile::tempdir().unwrap();
    let private = fs::File::open("/").unwrap();
    let processes = Processes::new(OwnedFd::from(fs::File::open(root.path()).unwrap()));
    let mut limits = limits();
    // Any file system that holds more than a page stands in for it.
    limits.memory_bytes = 1;
    let mut watch = Watch::of(&limits, processes, -1, private.as_raw_fd());
    assert_eq!(look(&mut watch), Some(Bound::Memory));
}

#[test]
fn a_host_without_memory_ends_who_took_it() {
    let root = tempfile::tempdir().unwrap();
    let show = |available: u64| {
        let text = format!("MemTotal: 1048576 kB\nMemFree: 1 kB\nMemAvailable: {} kB\n", available >> 10);
        fs::write(root.path().join("meminfo"), text).unwrap();
    };
    show(100 * MIB);
    let mut late = watch(root.path(), &limits());
    late.start();
    show(1000 * MIB);
    let mut early = watch(root.path(), &limits());
    early.start();
    show(65 * MIB);
    assert_eq!(look(&mut early), None, "there is enough left");
    show(63 * MIB);
    assert_eq!(look(&mut early), Some(Bound::Memory));
    assert_eq!(look(&mut late), None, "it was short of memory before");
}

#[test]
fn who_cannot_be_read_does_not_escape() {
    let root = tempfile::tempdir().unwrap();
    let mut watch = watch(root.path(), &limits());
    let mut blind = Totals::default();
    blind.unreadable = true;
    for (totals, answer) in
        [(blind, Ok(())), (Totals::default(), Ok(())), (blind, Ok(())), (blind, Err(Bound::Memory))]
    {
        assert_eq!(watch.sight(&totals), answer);
    }
}

#[test]
fn a_control_group_knows_all_processor_time() {
    let root = tempfile::tempdir().unwrap();
    // The process itself has taken little; what it has started and not waited for is in the group's count only.
    add(root.path(), 2, &stat_line("sh", [0; 4], 1, 1), "");
    let place = root.path().join("cpu.stat");
    for (content, bound) in [
        ("usage_usec 10000000\nuser_usec 9\nsystem_usec 1\n", None),
        ("usage_usec 10000001\nuser_usec 9\nsystem_usec 1\n", Some(Bound::Cpu)),
        ("nr_periods 99000000000\n", None),
        ("", None),
    ] {
        fs::write(&place, content).unwrap();
        let file = fs::File::open(&place).unwrap();
        let mut watch = Watch { processor: file.as_raw_fd(), ..watch(root.path(), &limits()) };
        assert_eq!(look(&mut watch), bound, "{content:?}");
    }
}
