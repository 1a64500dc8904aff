//! Commands that run at the same time: nothing of one is another's.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;

use super::*;
use crate::kernel::kernel;

/// How many run at once.
const MANY: usize = 6;

async fn at_once(backend: &Arc<dyn ShellBackend>, text: &str) -> Vec<String> {
    let calls: Vec<_> = (0..MANY)
        .map(|_| {
            let (backend, job) = (Arc::clone(backend), job(text));
            tokio::spawn(async move { output(&*backend, job).await })
        })
        .collect();
    let mut texts = Vec::new();
    for call in calls {
        texts.push(call.await.unwrap());
    }
    texts
}

#[test]
fn each_has_namespaces_of_its_own() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        // Both texts end when all of them have begun, so no number of a namespace is used again meanwhile. Only the second
        // can be read by a warm shell.
        for (pool, proc) in [(PoolSize::NONE, "/proc"), (PoolSize::default(), "/p*c")] {
            let backend = native(view(folder.path()), pool);
            for round in 0..3 {
                let text = format!(
                    "cd {proc}/self/ns; readlink ipc mnt pid; cd - >&2; echo >> began{round}; \
                     until [ $(wc -l < began{round}) = {MANY} ]; do sleep 0.01; done"
                );
                let texts = at_once(&backend, &text).await;
                std::fs::remove_file(folder.path().join(format!("began{round}"))).unwrap();
                let seen: BTreeSet<&str> = texts.iter().flat_map(|text| text.lines()).collect();
                assert_eq!(seen.len(), 3 * MANY, "{pool:?} {round}: {seen:?}");
                for kind in ["ipc", "mnt", "pid"] {
                    let outside = std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
                    assert!(!seen.contains(outside.to_str().unwrap()), "{pool:?} {round} {kind}");
                }
                pause().await;
            }
        }
    });
}

#[test]
fn output_of_every_size_arrives_whole_whoever_takes_it() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let backend = native(view(folder.path()), PoolSize::default());
    block_on(async {
        // Around what a call's own task takes, what a pipe holds, and what gets a thread of its own; at once and late.
        for bytes in [0, 1, 16_383, 16_384, 16_385, 65_536, 65_537, 300_000] {
            for pause in ["", "sleep 0.01; "] {
                let text = format!("{pause}head -c {bytes} /dev/zero; {pause}head -c {bytes} /dev/zero >&2");
                let (ended, collected) = run(&*backend, job(&text)).await;
                assert_eq!(ended.map(|ended| ended.exit), Ok(Exit::Code(0)), "{text}");
                let sizes = (collected.stdout.len(), collected.stderr.len());
                assert_eq!(sizes, (bytes, bytes), "{text}");
            }
        }
    });
}

/// Linux lists mounts by their age. Before 6.15 it cannot copy one that is attached nowhere, so what was made beforehand keeps
/// its age.
fn table(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    if kernel() < (6, 15) {
        lines.sort();
    }
    lines
}

/// Most of what is mounted for the first was made beforehand, and nothing for the others.
#[test]
fn all_see_one_table_of_mounts() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let backend = native(view(folder.path()), PoolSize::NONE);
        let text = "cut -d' ' -f1-4 /proc/mounts";
        output(&*backend, job("true")).await;
        pause().await;
        let first = table(&output(&*backend, job(text)).await);
        for other in at_once(&backend, text).await {
            assert_eq!(table(&other), first);
        }
    });
}

/// A shell that waits, a program that waits, and those that find neither.
#[test]
fn what_stands_ready_and_what_does_not_see_one_table_of_mounts() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let backend = native(view(folder.path()), PoolSize { warm: 1, parked: 1 });
        let text = "cd /p*c; cut -d' ' -f1-4 mounts";
        let mut tables = BTreeSet::new();
        for _ in 0..4 {
            pause().await;
            tables.insert(table(&output(&*backend, program(&["sh", "-c", text])).await));
            tables.insert(table(&output(&*backend, job(text)).await));
            for other in at_once(&backend, text).await {
                tables.insert(table(&other));
            }
        }
        assert_eq!(tables.len(), 1, "{tables:?}");
    });
}
