use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use pretty_assertions::assert_eq;

use super::*;

fn open(root: &Path) -> Processes {
    Processes::new(OwnedFd::from(fs::File::open(root).unwrap()))
}

/// A line as the kernel writes it, with the fields that matter.
pub(in super::super) fn stat_line(name: &str, ticks: [u64; 4], threads: u64, pages: u64) -> String {
    let [user, system, children_user, children_system] = ticks;
    format!(
        "7 ({name}) S 1 7 7 0 -1 4194304 100 200 0 0 {user} {system} {children_user} {children_system} 20 0 \
         {threads} 0 31337 10000000 {pages} 18446744073709551615 1 1 0 0 0 0 0 4096 65536 0 0 0 17 0 0 0 0 0 0\n"
    )
}

pub(in super::super) fn add(root: &Path, pid: u32, stat: &str, status: &str) {
    let dir = root.join(pid.to_string());
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("stat"), stat).unwrap();
    fs::write(dir.join("status"), status).unwrap();
}

fn status(anonymous: u64, shared: u64, swapped: u64) -> String {
    format!(
        "Name:\tx\nGroups:\t0 \nVmRSS:\t    9999 kB\nRssAnon:\t{anonymous:>8} kB\nRssFile:\t    5000 kB\n\
         RssShmem:\t{shared:>8} kB\nVmSwap:\t{swapped:>8} kB\nHugetlbPages:\t       0 kB\n"
    )
}

#[test]
fn a_name_cannot_forge_fields() {
    let expected = Stat { own_ticks: 3, children_ticks: 7, threads: 5, resident_pages: 6 };
    for name in ["sh", "a b", ") S 1 7 7 0", "((", "1 2 3)", "\n"] {
        let line = stat_line(name, [1, 2, 3, 4], 5, 6);
        assert_eq!(Stat::parse(line.as_bytes()), Some(expected), "{name:?}");
    }
}

#[test]
fn what_is_cut_off_or_no_number_is_nothing() {
    let line = stat_line("sh", [1, 2, 3, 4], 5, 6);
    let needed = line.find(" 6 18446744073709551615").unwrap() + 2;
    for length in 0..needed {
        assert_eq!(Stat::parse(&line.as_bytes()[..length]), None, "{length}");
    }
    assert_eq!(number(b"18446744073709551616"), None);
    assert_eq!(number(b"-1"), None);
    assert_eq!(kilobytes(b"RssAnon:\t 12 kB\n", b"RssAnon:"), Some(12 << 10));
    assert_eq!(kilobytes(b"RssAnon:\t 12", b"RssAnon:"), None);
}

#[test]
fn init_counts_only_by_its_children_time() {
    let root = tempfile::tempdir().unwrap();
    add(root.path(), 1, &stat_line("init", [5000, 5000, 30, 40], 1, 1000), &status(4000, 0, 0));
    add(root.path(), 2, &stat_line("sh", [100, 200, 300, 400], 3, 10), &status(8, 16, 32));
    add(root.path(), 77, &stat_line("zombie", [1, 1, 0, 0], 0, 0), "Name:\tzombie\n");
    fs::create_dir(root.path().join("9")).unwrap();
    fs::create_dir(root.path().join("sys")).unwrap();
    let processes = open(root.path());
    let page = processes.page_bytes;
    for _ in 0..2 {
        let totals = processes.totals(1000);
        assert_eq!(
            totals,
            Totals { threads: 4, resident_bytes: 10 * page, unreadable: false, cpu_ticks: 1072 }
        );
        assert_eq!(totals.cpu_seconds(), 10);
        assert_eq!(processes.memory(), Memory { private: 40 << 10, shared: 16 << 10 });
    }
}

#[test]
fn pages_count_once_where_the_kernel_says_how_they_are_shared() {
    let root = tempfile::tempdir().unwrap();
    add(root.path(), 2, &stat_line("a", [0; 4], 1, 1), &status(70, 100, 20));
    add(root.path(), 3, &stat_line("b", [0; 4], 1, 1), &status(8, 100, 1));
    let rollup = "Rss: 9 kB\nPss_Anon:  7 kB\nPss_Shmem:     50 kB\nSwap:  20 kB\nSwapPss:  2 kB\n";
    fs::write(root.path().join("2/smaps_rollup"), rollup).unwrap();
    let processes = open(root.path());
    assert_eq!(processes.memory(), Memory { private: 99 << 10, shared: 200 << 10 });
    assert_eq!(processes.memory_once(), (7 + 50 + 2 + 8 + 100 + 1) << 10);
    // What the kernel does not say counts whole.
    fs::write(root.path().join("2/smaps_rollup"), "Pss_Shmem:     50 kB\n").unwrap();
    assert_eq!(processes.memory_once(), (70 + 50 + 20 + 8 + 100 + 1) << 10);
}

#[test]
fn a_long_list_of_groups_hides_no_memory() {
    let root = tempfile::tempdir().unwrap();
    let groups = format!("Name:\tx\nGroups:\t{}\n{}", "65534 ".repeat(2000), status(1, 1, 1));
    add(root.path(), 2, &stat_line("a", [0; 4], 1, 25), &groups);
    let processes = open(root.path());
    assert_eq!(processes.memory().private, 25 * processes.page_bytes);
}

#[test]
fn counting_stops_when_there_are_enough() {
    let root = tempfile::tempdir().unwrap();
    for pid in 2..500 {
        add(root.path(), pid, &stat_line("bomb", [0; 4], 10, 1), "");
    }
    assert_eq!(open(root.path()).totals(100).threads, 110);
    assert_eq!(open(root.path()).totals(u64::MAX).threads, 4980);
}

/// The kernel's own files have the fields where this module looks for them.
#[test]
fn the_kernel_shows_this_process() {
    let mut held = vec![0_u8; 64 << 20];
    held.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    let processes = open(Path::new("/proc"));
    let pid = std::process::id().to_string();
    let mut buffer = [0; FILE_BYTES];
    let stat = Stat::parse(processes.read(&[pid.as_bytes(), b"/stat"], &mut buffer).unwrap()).unwrap();
    assert!(stat.threads >= 2, "{stat:?}");
    assert!(stat.resident_pages * processes.page_bytes > 60 << 20, "{stat:?}");
    let status = processes.read(&[pid.as_bytes(), b"/status"], &mut buffer).unwrap();
    assert!(kilobytes(status, b"RssAnon:").unwrap() > 60 << 20);
    assert!(kilobytes(status, b"RssShmem:").is_some() && kilobytes(status, b"VmSwap:").is_some());
    assert_eq!(held[0], 1);
    let host = processes.host_memory().unwrap();
    assert!(0 < host.available && host.available < host.total, "{host:?}");
}

#[test]
fn a_tree_is_who_descends_from_its_top() {
    let root = tempfile::tempdir().unwrap();
    let children = |pid: u32, thread: u32, list: &str| {
        let dir = root.path().join(format!("{pid}/task/{thread}"));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("children"), list).unwrap();
    };
    for pid in [1, 10, 20, 30, 40, 50] {
        add(root.path(), pid, &stat_line("sh", [100, 0, 100, 0], 2, 1), &status(8, 0, 0));
    }
    children(10, 10, "20 ");
    children(10, 11, "30 ");
    children(20, 20, "40 999 ");
    children(30, 30, "");
    let tree = |most: u64, top: u32| {
        let mut processes = Processes::of_tree(OwnedFd::from(fs::File::open(root.path()).unwrap()), most);
        processes.set_top(top);
        processes
    };
    let all = tree(100, 10);
    // Twice, because the room is used again. The top counts by its children's time alone.
    for _ in 0..2 {
        let totals = all.totals(100);
        assert_eq!((totals.threads, totals.cpu_seconds(), totals.unreadable), (6, 7, false));
    }
    assert_eq!(all.memory(), Memory { private: 24 << 10, shared: 0 });
    // Room for two, and no more: 20 and 30 are seen, 40 is not.
    assert_eq!(tree(2, 10).totals(100).threads, 4);
    assert_eq!(tree(100, 20).totals(100).threads, 2);
}

#[test]
fn long_lists_of_children_are_read_whole() {
    let root = tempfile::tempdir().unwrap();
    let list: String = (1000..3000).map(|pid| format!("{pid} ")).collect();
    fs::create_dir_all(root.path().join("7/task/7")).unwrap();
    fs::write(root.path().join("7/task/7/children"), list).unwrap();
    let mut processes = Processes::of_tree(OwnedFd::from(fs::File::open(root.path()).unwrap()), 5000);
    processes.set_top(7);
    let mut seen = Vec::new();
    processes
        .each(|pid| {
            seen.push(number(pid).unwrap());
            true
        })
        .unwrap();
    assert_eq!(seen, std::iter::once(7).chain(1000..3000).collect::<Vec<_>>());
}
