//! What plain filters print when all that goes into them is known: `echo`, `printf`, `base64 -d`, `rev`, `tr` and a few
//! more. They are what people hide commands behind. Anything that is not certain prints something unknown.

use std::path::Path;

use crate::analysis::{Arg, ArgPart};
use crate::expand::{MAX_KNOWN, Text};

/// What a program prints, if that can be told.
pub(super) fn output(
    program: &str,
    args: &[Arg],
    input: Option<&Text>,
    directory: Option<&Path>,
) -> Option<Text> {
    if matches!(program, "echo" | "printf")
        && let Some(text) = partly_known(program, args)
    {
        return Some(text);
    }
    if let ("which", [name]) = (program, args)
        && let Some(name) = name.text().filter(|name| !name.contains('/') && !name.starts_with('-'))
    {
        // In which directory it is found is not known.
        let mut text = Text::unknown();
        text.push(&format!("/{name}\n"));
        return Some(text);
    }
    let args: Vec<&str> = args.iter().map(Arg::text).collect::<Option<_>>()?;
    let text = match program {
        "echo" => echo(&args),
        "printf" => printf(&args)?,
        ":" | "true" | "false" | "cd" | "export" | "set" | "test" | "[" => String::new(),
        "pwd" => format!("{}\n", directory?.to_str()?),
        "basename" => basename(&args)?,
        "dirname" => match args.as_slice() {
            [path] if !path.starts_with('-') => format!("{}\n", Path::new(path).parent()?.to_str()?),
            _ => return None,
        },
        _ => {
            let input = input?.whole()?;
            filter(program, &args, input)?
        }
    };
    // The shell drops NUL characters, and what was no text is not kept either.
    let plain = !text.contains(['\0', char::REPLACEMENT_CHARACTER]);
    (plain && text.len() <= MAX_KNOWN).then(|| Text::known(text))
}

/// `echo "$x"` prints what is not known, but nothing else: a shell behind it runs that.
fn partly_known(program: &str, args: &[Arg]) -> Option<Text> {
    if program != "echo" || args.iter().all(|arg| arg.text().is_some()) {
        return None;
    }
    let mut text = Text::default();
    for (index, arg) in args.iter().enumerate() {
        if index == 0 && arg.prefix().starts_with('-') {
            return None;
        }
        if index > 0 {
            text.push(" ");
        }
        for part in &arg.parts {
            match part {
                ArgPart::Known(known) => text.push(known),
                ArgPart::Glob(_) | ArgPart::Unknown => text.push_unknown(),
            }
        }
    }
    text.push("\n");
    Some(text)
}

fn filter(program: &str, args: &[&str], input: &str) -> Option<String> {
    match program {
        "cat" => match args {
            [] | ["-"] => Some(input.to_owned()),
            _ => None,
        },
        "tee" => args.iter().all(|arg| *arg == "/dev/null" || *arg == "-a").then(|| input.to_owned()),
        "rev" => args.is_empty().then(|| {
            let lines: Vec<String> = input.split('\n').map(|line| line.chars().rev().collect()).collect();
            lines.join("\n")
        }),
        "tac" => args.is_empty().then(|| {
            let mut lines: Vec<&str> = input.lines().collect();
            lines.reverse();
            let mut text = lines.join("\n");
            text.push('\n');
            text
        }),
        "base64" => match args {
            ["-d" | "-D" | "--decode" | "-di" | "-id"] => String::from_utf8(base64(input)?).ok(),
            ["-d" | "-D" | "--decode", "-i" | "--ignore-garbage" | "-"] => {
                String::from_utf8(base64(input)?).ok()
            }
            _ => None,
        },
        "base32" => None,
        "openssl" => match args {
            ["base64" | "enc", rest @ ..] if rest.contains(&"-d") && !rest.contains(&"-in") => {
                let plain = args.first() == Some(&"base64")
                    || rest.iter().any(|arg| matches!(*arg, "-base64" | "-a"));
                if plain { String::from_utf8(base64(input)?).ok() } else { None }
            }
            _ => None,
        },
        "xxd" => {
            let letters: String = args.iter().map(|arg| arg.trim_start_matches('-')).collect();
            let plain =
                args.iter().all(|arg| matches!(*arg, "-r" | "-p" | "-rp" | "-pr" | "-ps" | "-plain" | "-"));
            (plain && letters.contains('r') && letters.contains('p')).then(|| hexadecimal(input)).flatten()
        }
        "tr" => translate(args, input),
        "head" | "tail" => ends(program == "head", args, input),
        "sed" => match args {
            [script] | ["-e" | "-E" | "-r", script] => substitute(script, input),
            _ => None,
        },
        "sort" | "uniq" | "nl" | "fold" | "cut" | "grep" | "awk" | "wc" => None,
        _ => None,
    }
}

fn echo(args: &[&str]) -> String {
    let mut escapes = false;
    let mut newline = true;
    let mut rest = args;
    while let Some((option, after)) = rest.split_first() {
        let is_option = option.len() > 1
            && option.starts_with('-')
            && option[1..].bytes().all(|byte| matches!(byte, b'n' | b'e' | b'E'));
        if !is_option {
            break;
        }
        for byte in option.bytes() {
            match byte {
                b'n' => newline = false,
                b'e' => escapes = true,
                b'E' => escapes = false,
                _ => {}
            }
        }
        rest = after;
    }
    let mut text = rest.join(" ");
    if escapes {
        let (decoded, stops) = decode(&text, Escapes::Echo);
        text = decoded;
        newline &= !stops;
    }
    if newline {
        text.push('\n');
    }
    text
}

fn printf(args: &[&str]) -> Option<String> {
    let (format, mut values) = match args {
        ["--", format, values @ ..] => (*format, values),
        [format, values @ ..] if !format.starts_with('-') => (*format, values),
        _ => return None,
    };
    let mut text = String::new();
    loop {
        let before = values.len();
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            text.push_str(&decode(&rest[..at], Escapes::Format).0);
            let specification = &rest[at + 1..];
            let end = specification
                .find(|character: char| !matches!(character, '0'..='9' | '-' | '.' | '+' | ' ' | '#'))?;
            let conversion = specification[end..].chars().next()?;
            let plain = end == 0;
            rest = &specification[end + conversion.len_utf8()..];
            if conversion == '%' {
                text.push('%');
                continue;
            }
            if !plain {
                return None;
            }
            let value = values.split_first().map(|(first, after)| {
                values = after;
                *first
            });
            match conversion {
                's' => text.push_str(value.unwrap_or("")),
                'b' => {
                    let (decoded, stops) = decode(value.unwrap_or(""), Escapes::Argument);
                    text.push_str(&decoded);
                    if stops {
                        return Some(text);
                    }
                }
                'c' => text.extend(value.unwrap_or("").chars().next()),
                'd' | 'i' | 'u' => text.push_str(&number(value.unwrap_or("0"))?.to_string()),
                'x' => text.push_str(&format!("{:x}", number(value.unwrap_or("0"))?)),
                'X' => text.push_str(&format!("{:X}", number(value.unwrap_or("0"))?)),
                'o' => text.push_str(&format!("{:o}", number(value.unwrap_or("0"))?)),
                _ => return None,
            }
            if text.len() > MAX_KNOWN {
                return None;
            }
        }
        let (decoded, stops) = decode(rest, Escapes::Format);
        text.push_str(&decoded);
        if stops || values.is_empty() || values.len() == before || text.len() > MAX_KNOWN {
            return Some(text);
        }
    }
}

fn number(text: &str) -> Option<i64> {
    if let Some(quoted) = text.strip_prefix(['\'', '"']) {
        return quoted.chars().next().map(|character| i64::from(u32::from(character)));
    }
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => i64::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}

/// Who decodes escapes; they differ in what counts as octal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    /// `echo -e`: `\0162`.
    Echo,
    /// `%b`: `\162` or `\0162`.
    Argument,
    /// The format of `printf`, a set of `tr`: `\162`.
    Format,
}

/// Decodes backslash escapes; says whether `\c` ends the output.
fn decode(text: &str, escapes: Escapes) -> (String, bool) {
    let mut bytes: Vec<u8> = Vec::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\\' {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let Some(escape) = characters.next() else {
            bytes.push(b'\\');
            break;
        };
        let mut digits = |radix: u32, most: usize, start: u32| {
            let (mut value, mut count) = (start, 0);
            while count < most {
                let Some(digit) = characters.peek().and_then(|next| next.to_digit(radix)) else { break };
                value = value * radix + digit;
                characters.next();
                count += 1;
            }
            value
        };
        match escape {
            'a' => bytes.push(7),
            'b' => bytes.push(8),
            'c' => return (String::from_utf8_lossy(&bytes).into_owned(), true),
            'e' | 'E' => bytes.push(27),
            'f' => bytes.push(12),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'v' => bytes.push(11),
            '\\' => bytes.push(b'\\'),
            'x' => bytes.push(digits(16, 2, 0) as u8),
            'u' => push_character(digits(16, 4, 0), &mut bytes),
            'U' => push_character(digits(16, 8, 0), &mut bytes),
            '0' if escapes != Escapes::Format => bytes.push(digits(8, 3, 0) as u8),
            '0'..='7' if escapes != Escapes::Echo => {
                bytes.push(digits(8, 2, escape.to_digit(8).unwrap_or(0)) as u8)
            }
            '"' | '\'' if escapes == Escapes::Format => bytes.push(escape as u8),
            other => {
                bytes.push(b'\\');
                bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
    (String::from_utf8_lossy(&bytes).into_owned(), false)
}

fn push_character(code: u32, bytes: &mut Vec<u8>) {
    if let Some(character) = char::from_u32(code) {
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

fn basename(args: &[&str]) -> Option<String> {
    let (path, suffix) = match args {
        [path] => (*path, ""),
        [path, suffix] => (*path, *suffix),
        _ => return None,
    };
    if path.starts_with('-') {
        return None;
    }
    let base = path.trim_end_matches('/').rsplit('/').next()?;
    let base = base.strip_suffix(suffix).filter(|short| !short.is_empty()).unwrap_or(base);
    Some(format!("{base}\n"))
}

/// Decodes base64; characters outside its alphabet end or break it.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut buffer, mut bits) = (0_u32, 0);
    let mut padded = false;
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'\n' => continue,
            b'=' => {
                padded = true;
                continue;
            }
            _ => return None,
        };
        // What follows the padding is read differently by different programs.
        if padded {
            return None;
        }
        buffer = (buffer << 6 | u32::from(value)) & 0xff_ffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((buffer >> bits) as u8);
        }
    }
    Some(bytes)
}

fn hexadecimal(text: &str) -> Option<String> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|character| !character.is_whitespace())
        .map(|digit| digit.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    let bytes = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    String::from_utf8(bytes).ok()
}

fn translate(args: &[&str], input: &str) -> Option<String> {
    match args {
        ["-d" | "--delete", set] => {
            let set = characters(set)?;
            Some(input.chars().filter(|character| !set.contains(character)).collect())
        }
        [from, to] if !from.starts_with('-') => {
            let (from, to) = (characters(from)?, characters(to)?);
            let last = *to.last()?;
            Some(
                input
                    .chars()
                    .map(|character| match from.iter().rposition(|other| *other == character) {
                        Some(at) => to.get(at).copied().unwrap_or(last),
                        None => character,
                    })
                    .collect(),
            )
        }
        _ => None,
    }
}

/// The characters of a set of `tr`.
fn characters(set: &str) -> Option<Vec<char>> {
    const MAX_SET: usize = 512;
    let classes = [("[:upper:]", 'A'..='Z'), ("[:lower:]", 'a'..='z'), ("[:digit:]", '0'..='9')];
    if let Some((_, range)) = classes.into_iter().find(|(name, _)| *name == set) {
        return Some(range.collect());
    }
    if set.contains("[:") || set.contains("[=") {
        return None;
    }
    let decoded: Vec<char> = decode(set, Escapes::Format).0.chars().collect();
    let mut made = Vec::new();
    let mut at = 0;
    while at < decoded.len() {
        match decoded.get(at + 1..at + 3) {
            Some(['-', end]) if decoded[at] <= *end => {
                made.extend((decoded[at]..=*end).take(MAX_SET));
                at += 3;
            }
            _ => {
                made.push(decoded[at]);
                at += 1;
            }
        }
        if made.len() > MAX_SET {
            return None;
        }
    }
    Some(made)
}

fn ends(first: bool, args: &[&str], input: &str) -> Option<String> {
    let (bytes, count) = match args {
        [] => (false, "10"),
        ["-n", count] => (false, *count),
        ["-c", count] => (true, *count),
        [one] => match (one.strip_prefix("-n"), one.strip_prefix("-c"), one.strip_prefix('-')) {
            (Some(count), _, _) => (false, count),
            (_, Some(count), _) => (true, count),
            (_, _, Some(count)) => (false, count),
            _ => return None,
        },
        _ => return None,
    };
    if let Some(from) = count.strip_prefix('+').filter(|_| !first) {
        let from: usize = from.parse().ok()?;
        return match bytes {
            true => input.get(from.saturating_sub(1)..).map(str::to_owned),
            false => Some(input.split_inclusive('\n').skip(from.saturating_sub(1)).collect()),
        };
    }
    let count: usize = count.parse().ok()?;
    if bytes {
        let count = count.min(input.len());
        let kept = if first { input.get(..count) } else { input.get(input.len() - count..) };
        return kept.map(str::to_owned);
    }
    let lines: Vec<&str> = input.split_inclusive('\n').collect();
    let kept =
        if first { &lines[..count.min(lines.len())] } else { &lines[lines.len().saturating_sub(count)..] };
    Some(kept.concat())
}

/// `s/a/b/` and `s/a/b/g` with plain text on both sides.
fn substitute(script: &str, input: &str) -> Option<String> {
    let rest = script.strip_prefix('s')?;
    let separator = rest.chars().next().filter(char::is_ascii_punctuation)?;
    let mut parts = rest[1..].split(separator);
    let (from, to, flags) = (parts.next()?, parts.next()?, parts.next()?);
    let plain =
        |text: &str| !text.contains(['\\', '.', '*', '[', ']', '^', '$', '&', '+', '?', '(', ')', '{', '|']);
    if parts.next().is_some() || from.is_empty() || !plain(from) || !plain(to) || !matches!(flags, "" | "g") {
        return None;
    }
    if to.len() > 64 {
        return None;
    }
    let lines = input.split_inclusive('\n').map(|line| match flags {
        "g" => line.replace(from, to),
        _ => line.replacen(from, to, 1),
    });
    Some(lines.collect())
}

#[cfg(test)]
mod tests;
