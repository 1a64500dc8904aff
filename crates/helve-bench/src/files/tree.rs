//! A tree of source-like files, the same in every run.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::Measured;

/// Files that a search visits.
pub(super) const FILES: usize = 20_000;
/// Files of them that hold one match of [`PATTERN`].
pub(super) const MATCHES: usize = 200;
/// A regular expression that a plain text search could not replace.
pub(super) const PATTERN: &str = r"fn\s+parse_\w+";

const WORDS: [&str; 32] = [
    "let", "value", "self", "return", "match", "struct", "impl", "const", "index", "buffer", "length",
    "result", "error", "option", "string", "vector", "while", "break", "static", "public", "module",
    "import", "export", "config", "request", "response", "handler", "stream", "socket", "thread", "memory",
    "fn",
];

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % below.max(1)
    }
}

/// Makes the tree: directories of 16 files, three levels deep, and ignored ones beside them.
pub(super) fn plant(root: &Path) -> Measured<()> {
    let mut numbers = Numbers(7);
    fs::write(root.join(".gitignore"), "*.log\n/target/\nnode_modules/\n# comment\n!keep.log\n")?;
    for (number, ending) in
        (0..FILES).zip(["rs", "py", "md", "toml", "ts", "go", "c", "h"].into_iter().cycle())
    {
        let group = number / 16;
        let dir =
            root.join(format!("part_{}/section_{}/unit_{}", group % 25, (group / 25) % 10, group / 250));
        if number % 16 == 0 {
            fs::create_dir_all(&dir)?;
        }
        let matches = number % (FILES / MATCHES) == 50;
        fs::write(dir.join(format!("file_{number}.{ending}")), text(&mut numbers, matches, number))?;
    }
    for dir in ["target/debug", "part_3/node_modules/package", "part_4/logs"] {
        fs::create_dir_all(root.join(dir))?;
        for number in 0..200 {
            let name = if dir.ends_with("logs") { format!("{number}.log") } else { format!("{number}.rs") };
            fs::write(root.join(dir).join(name), text(&mut numbers, true, number))?;
        }
    }
    Ok(())
}

/// About 4,500 bytes of lines.
fn text(numbers: &mut Numbers, matches: bool, number: usize) -> String {
    let mut text = String::new();
    let lines = 40 + numbers.next(120);
    let place = numbers.next(lines);
    for line in 0..lines {
        if matches && line == place {
            let _ = writeln!(text, "    fn parse_{number}(input: &str) -> usize {{");
        }
        for _ in 0..4 + numbers.next(6) {
            text.push_str(WORDS[numbers.next(WORDS.len())]);
            text.push(' ');
        }
        text.push('\n');
    }
    text
}

/// One file of 1.3 MB, every line different.
pub(super) fn large_file() -> String {
    let mut text = String::new();
    let mut line = 0_usize;
    while text.len() < 1_300_000 {
        let _ = writeln!(text, "    let value_{line} = compute(\"item {line}\", {}); // step", line * 7);
        line += 1;
    }
    text
}
