//! Programs that print nothing but numbers. Text that may be anything must not be evaluated as arithmetic, where a
//! subscript in it could run a command; a count of lines may.

use crate::analysis::Arg;

use super::statements::holds_pattern;

/// Whether all that a program prints are numbers; `fed` says whether all that it reads are, `wild` whether what is not known
/// of its arguments may be anything.
pub(super) fn prints(program: &str, args: &[Arg], fed: bool, wild: bool) -> bool {
    let Some(args) = args.iter().map(Arg::text).collect::<Option<Vec<&str>>>() else {
        // Behind a number no option of `seq` is one.
        let operand = |arg: &Arg| arg.prefix().starts_with(|first: char| first.is_ascii_digit());
        return match program {
            "seq" => !wild || args.first().is_some_and(operand),
            "nproc" => true,
            "grep" => counts(args),
            _ => false,
        };
    };
    let plain = |rest: &[&str]| !rest.iter().any(|arg| arg.starts_with('-'));
    let only = |letters: &str| {
        args.iter().all(|arg| {
            arg.strip_prefix('-').is_some_and(|given| {
                !given.is_empty() && given.chars().all(|letter| letters.contains(letter))
            })
        })
    };
    match program {
        // With a file's name it prints that, too.
        "wc" => only("lcwmL"),
        "nproc" => true,
        "seq" => {
            let number =
                |arg: &&&str| arg[1..].starts_with(|next: char| next.is_ascii_digit() || next == '.');
            args.iter().filter(|arg| arg.starts_with('-')).all(|arg| *arg == "-w" || number(&arg))
        }
        "grep" | "egrep" | "fgrep" => {
            args.iter().any(|arg| matches!(*arg, "-c" | "--count")) && is_one_file(&args)
        }
        "date" => matches!(args.as_slice(), [format] | ["-u", format] if is_number_format(format)),
        "stat" => {
            matches!(args.as_slice(), ["-c" | "--format" | "-f", format, rest @ ..] if is_size_format(format) && plain(rest))
        }
        "id" => matches!(args.as_slice(), ["-u" | "-g", rest @ ..] if plain(rest)),
        // A `+` in front makes any word a text that it prints.
        "expr" => {
            let number = |arg: &str| arg.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
            args.iter().all(|arg| matches!(*arg, "+" | "-" | "*" | "/" | "%" | "(" | ")") || number(arg))
        }
        "git" => matches!(args.as_slice(), ["rev-list", rest @ ..] if rest.contains(&"--count")),
        "tput" => matches!(args.as_slice(), ["cols" | "lines"]),
        "getconf" => matches!(args.as_slice(), ["_NPROCESSORS_ONLN" | "_NPROCESSORS_CONF" | "PAGESIZE"]),
        "printf" => args.first().is_some_and(|format| {
            matches!(format.trim_end_matches("\\n"), "%d" | "%i" | "%u" | "%02d" | "%03d" | "%04d")
        }),
        "tr" => {
            matches!(args.as_slice(), ["-cd" | "-dc", "0-9" | "[:digit:]" | "[0-9]"])
                || (fed && matches!(args.as_slice(), ["-d", _]))
        }
        "cat" => fed && args.is_empty(),
        "head" | "tail" | "sort" | "uniq" => {
            fed && args.iter().all(|arg| arg.starts_with('-') && !arg.starts_with("--"))
        }
        "xargs" => fed && args.is_empty(),
        _ => false,
    }
}

/// Whether an option that is certain makes `grep` count, and what is not certain is quoted text to look for.
fn counts(args: &[Arg]) -> bool {
    args.first().and_then(Arg::text) == Some("-c")
        && args.len() <= 3
        && !args
            .iter()
            .any(|arg| arg.splits || holds_pattern(arg) || arg.may_be_option() && arg.text().is_none())
}

/// Whether `grep` is given at most one file, whose name it then leaves out.
fn is_one_file(args: &[&str]) -> bool {
    let options = args.iter().filter(|arg| arg.starts_with('-'));
    let plain = |option: &&str| {
        option
            .strip_prefix('-')
            .is_some_and(|letters| letters.chars().all(|letter| "cEFPivwx".contains(letter)))
            || matches!(*option, "--count" | "--")
    };
    options.clone().all(plain) && args.len() - options.count() <= 2
}

/// Whether a format of `date` is made of numbers.
fn is_number_format(format: &str) -> bool {
    let Some(format) = format.strip_prefix('+') else { return false };
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        let number = match character {
            '%' => characters.next().is_some_and(|letter| "sYmdHMSNjyuw".contains(letter)),
            '-' | '0'..='9' => true,
            _ => false,
        };
        if !number {
            return false;
        }
    }
    true
}

/// Whether a format of `stat` is a size, a time or a mode.
fn is_size_format(format: &str) -> bool {
    matches!(format, "%s" | "%Y" | "%X" | "%Z" | "%a" | "%u" | "%g" | "%i" | "%h" | "%z" | "%m")
}

#[cfg(test)]
mod tests {
    use super::prints;
    use crate::Span;
    use crate::analysis::Arg;

    #[test]
    fn counts_are_numbers_and_texts_are_not() {
        for (line, fed, number) in [
            ("wc -l", false, true),
            ("wc -l file", false, false),
            ("wc", false, true),
            ("grep -c x file", false, true),
            ("grep -c x file other", false, false),
            ("grep -rc x", false, false),
            ("grep x file", false, false),
            ("date +%s", false, true),
            ("date +%Y%m%d", false, true),
            ("date +a[%s]", false, false),
            ("date", false, false),
            ("seq 1 9", false, true),
            ("seq -s x 1 9", false, false),
            ("expr 1 + 2", false, true),
            ("expr x : y", false, false),
            ("expr + x", false, false),
            ("stat -c %s --printf=x f", false, false),
            ("seq -ws x 1 2", false, false),
            ("seq -w -1 2", false, true),
            ("sort --files0-from=f", true, false),
            ("tr -d x", true, true),
            ("tr -d x", false, false),
            ("tr -cd 0-9", false, true),
            ("cat", true, true),
            ("cat file", true, false),
            ("sort -n", true, true),
            ("sort file", true, false),
            ("stat -c %s file", false, true),
            ("stat -c %n file", false, false),
            ("id -u", false, true),
            ("id", false, false),
            ("printf %d x", false, true),
            ("printf %s x", false, false),
            ("cut -f1", true, false),
        ] {
            let mut words = line.split(' ');
            let program = words.next().unwrap_or_default();
            let args: Vec<Arg> = words.map(|word| Arg::known(word, Span { start: 0, end: 0 })).collect();
            assert_eq!(prints(program, &args, fed, true), number, "{line}");
        }
    }
}
