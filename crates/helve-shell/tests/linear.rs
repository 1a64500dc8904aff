//! What reading a hostile text costs grows with its length and no faster. Counted in allocations and not timed, so that a
//! busy machine fails nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use helve_shell::analysis::Setting;
use helve_shell::tree::Dialect;

struct Counting;

thread_local! {
    /// How often this thread allocated, and how many bytes.
    static TAKEN: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

fn note(bytes: usize) {
    TAKEN.with(|taken| {
        let (count, sum) = taken.get();
        taken.set((count + 1, sum + bytes as u64));
    });
}

#[expect(unsafe_code, reason = "an allocator cannot be written without; it only counts and hands on")]
// SAFETY: every call goes to the system's allocator unchanged, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer comes from `alloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size.saturating_sub(layout.size()));
        // SAFETY: the pointer comes from `alloc` above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A start, what is repeated, an end.
const TEXTS: &[(&str, &str, &str)] = &[
    ("", "a;", ""),
    ("", "x=1;", ""),
    ("", "a=$a$a;", ""),
    ("", "$(a)", ""),
    ("", "a|", "a"),
    ("", "a <<E\nx\nE\n", ""),
    ("", "a>b;", ""),
    ("", "cd a;", ""),
    ("", "f(){ f|f& };f;", ""),
    ("", "x=a;[ $y ]&&x=b;$x;", ""),
    ("", "for i in a b c;do $i;done;", ""),
    ("f(){ g;};g(){ a;};", "f;", ""),
    ("alias a='b;b;b;b';", "a;", ""),
    ("export a b c d e f g h;", "a;", ""),
    ("for a in 1 2 3 4 5;do for b in 1 2 3 4 5;do ", "x;", "done;done"),
    ("case x in ", "a)b;;", " esac"),
    ("sh -c '", "a;", "'"),
    ("sh <<E\n", "$(a)\n", "E\n"),
    ("echo '", "a;", "'|sh"),
    ("git ", "-c a=b ", ""),
    ("find . ", "-exec a ; ", ""),
    ("sed '", "s/a/b/;", "'"),
    ("awk '", "{system(\"a\")}\n", "'"),
    ("python -c '", "os.system(\"a\");", "'"),
    ("parallel ", "{", ""),
    ("ls ", "{a,b}", ""),
    ("ls ", "a{1..9} ", ""),
    ("ls ", "a/../", ""),
    ("rm -rf ", "a ", ""),
];

fn cost(text: &str) -> (u64, u64) {
    let place = Path::new("/home/nobody/project");
    let setting = Setting { dialect: Dialect::Bash, directory: place, workspace: place, home: None };
    TAKEN.set((0, 0));
    let analysis = helve_shell::analyze(text, &setting);
    let taken = TAKEN.get();
    drop(analysis);
    taken
}

#[test]
fn twelve_times_the_text_costs_at_most_fifteen_times_as_much() {
    for (start, repeated, end) in TEXTS {
        let of = |bytes: usize| cost(&format!("{start}{}{end}", repeated.repeat(bytes / repeated.len())));
        let (small, large) = (of(5_000), of(60_000));
        assert!(
            large.0 <= 15 * small.0 && large.1 <= 15 * small.1,
            "{start}{repeated}…{end}: {small:?} allocations and bytes for 5 kB, {large:?} for 60 kB"
        );
    }
}

#[test]
fn an_everyday_command_takes_few_allocations() {
    let (count, bytes) = cost("git status && cargo test -q 2>&1 | tail -5");
    assert!(count <= 90 && bytes <= 8_000, "{count} allocations of {bytes} bytes");
}
