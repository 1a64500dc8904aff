//! Hosts in arguments: what a URL or a `host:port` names.

/// The most URLs that one pattern is read as, which are never more than its text is long.
const MAX_GLOBBED: usize = 256;

/// The host of a URL, or of what a program takes for one when the scheme is missing, with the port that is given or that
/// the scheme has. None if the text names no host, as `file:///x` and an empty text do.
pub(crate) fn of_url(text: &str) -> Option<String> {
    let (scheme, rest) = split(text);
    let host = host_behind(scheme, rest)?;
    Some(match scheme.and_then(port_of) {
        Some(port) => at_port(&host, port),
        None => host,
    })
}

/// The host of a proxy's URL: its schemes have other ports, which differ from program to program.
pub(crate) fn of_proxy(text: &str) -> Option<String> {
    let (scheme, rest) = split(text);
    host_behind(scheme, rest)
}

fn host_behind(scheme: Option<&str>, rest: &str) -> Option<String> {
    let is_file = scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("file"));
    authority(rest.trim_start_matches(['/', '\\'])).filter(|_| !is_file)
}

/// Scheme, if there is one, and rest of a URL.
fn split(text: &str) -> (Option<&str>, &str) {
    let text = text.trim();
    match text.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
        Some(_) => (None, text),
        // Programs that fetch read `http:/host` and `//host` as well.
        None => match text.split_once(':') {
            Some((scheme, rest)) if is_web_scheme(scheme) => (Some(scheme), rest),
            _ => (None, text),
        },
    }
}

/// The port of a scheme.
fn port_of(scheme: &str) -> Option<u16> {
    Some(match scheme.to_ascii_lowercase().as_str() {
        "http" | "ws" => 80,
        "https" | "wss" => 443,
        "ftp" => 21,
        "ftps" => 990,
        "ssh" | "git+ssh" | "ssh+git" | "sftp" | "scp" => 22,
        "telnet" => 23,
        "git" => 9418,
        "rsync" => 873,
        "gopher" => 70,
        "ldap" => 389,
        "ldaps" => 636,
        "smtp" => 25,
        "smtps" => 465,
        "imap" => 143,
        "imaps" => 993,
        "pop3" => 110,
        "pop3s" => 995,
        "mqtt" => 1883,
        "postgres" | "postgresql" => 5432,
        "mysql" => 3306,
        "redis" | "rediss" => 6379,
        "mongodb" => 27017,
        "amqp" => 5672,
        _ => return None,
    })
}

/// A host with a port, unless it has one.
pub(crate) fn at_port(host: &str, port: u16) -> String {
    let name = host.strip_suffix(':').unwrap_or(host);
    let behind = name.rfind(']').map_or(name, |end| &name[end + 1..]);
    match behind.matches(':').count() {
        0 => format!("{name}:{port}"),
        1 => name.to_owned(),
        _ => format!("[{name}]:{port}"),
    }
}

/// The URLs that `curl` makes of one with lists (`{a,b}`) and ranges (`[1-3]`) in or before its host. None if these
/// cannot be read or are too many.
pub(crate) fn globbed(text: &str) -> Option<Vec<String>> {
    let most = MAX_GLOBBED.min(text.len());
    let mut done = Vec::new();
    // What is left to read, and up to where it has no pattern.
    let mut open = vec![(text.to_owned(), 0)];
    while let Some((text, read)) = open.pop() {
        let host = text.find("://").map_or(0, |at| at + "://".len());
        let from = read.max(host.min(text.find(['{', '[']).unwrap_or(text.len())));
        let Some(at) = text[from..].find(['{', '[', '/', '?', '#', '\\']).map(|at| from + at) else {
            done.push(text);
            continue;
        };
        let is_list = match &text[at..=at] {
            "{" => true,
            "[" => false,
            _ => {
                done.push(text);
                continue;
            }
        };
        let (inside, rest) = text[at + 1..].split_once(if is_list { '}' } else { ']' })?;
        if !is_list && is_address(inside) {
            let read = text.len() - rest.len();
            open.push((text, read));
            continue;
        }
        let choices = if is_list { inside.split(',').map(str::to_owned).collect() } else { range(inside)? };
        if done.len() + open.len() + choices.len() > most {
            return None;
        }
        let made = choices.iter().rev().map(|choice| (format!("{}{choice}{rest}", &text[..at]), at));
        open.extend(made);
    }
    Some(done)
}

/// Whether it is an address of IPv6, with a zone or not.
fn is_address(text: &str) -> bool {
    text.split('%').next().is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok())
}

/// What `a-c`, `1-3` and `01-10:3` stand for.
fn range(text: &str) -> Option<Vec<String>> {
    let (bounds, step) = text.split_once(':').unwrap_or((text, "1"));
    let step = step.parse().ok().filter(|step| *step > 0)?;
    let (first, last) = bounds.split_once('-')?;
    if let ([first], [last]) = (first.as_bytes(), last.as_bytes())
        && first.is_ascii_alphabetic()
        && last.is_ascii_alphabetic()
    {
        return Some((*first..=*last).step_by(step).map(|letter| char::from(letter).to_string()).collect());
    }
    let width = first.len();
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    let numbers = (first..=last).step_by(step).take(MAX_GLOBBED + 1);
    Some(numbers.map(|number| format!("{number:0width$}")).collect())
}

/// The host of `[user@]host[:port]`, as `nc`, `ssh` and `socat` take it.
pub(crate) fn of_authority(text: &str) -> Option<String> {
    authority(text)
}

/// The host of `[user@]host:path` or `rsync://host/…`; none if it is a path of this machine.
pub(crate) fn of_remote_path(text: &str) -> Option<String> {
    if text.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme)) {
        return of_url(text);
    }
    // A slash before the colon makes it a path. A single letter before a backslash is a drive.
    if let Some(rest) = text.find('[').map(|start| &text[start..])
        && let Some(end) = rest.find("]:")
    {
        let before = &text[..text.len() - rest.len()];
        return (!before.contains('/')).then(|| rest[1..end].to_ascii_lowercase());
    }
    let colon = text.find(':')?;
    let host = &text[..colon];
    let is_drive = host.len() == 1 && text[colon + 1..].starts_with(['\\', '/']);
    if host.is_empty() || host.contains('/') || is_drive {
        return None;
    }
    let host = host.rsplit('@').next().unwrap_or(host);
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|ch: char| ch.is_ascii_alphabetic())
        && text.chars().all(|ch| ch.is_ascii_alphanumeric() || matches!(ch, '+' | '-' | '.'))
}

fn is_web_scheme(text: &str) -> bool {
    ["http", "https", "ftp", "ftps"].iter().any(|scheme| text.eq_ignore_ascii_case(scheme))
}

fn authority(text: &str) -> Option<String> {
    let end = text.find(['/', '\\', '?', '#']).unwrap_or(text.len());
    let authority = &text[..end];
    let host = unescaped(authority.rsplit('@').next().unwrap_or(authority)).to_ascii_lowercase();
    let host = host.strip_suffix(':').unwrap_or(&host);
    let is_empty = host.is_empty() || host.starts_with(':');
    (!is_empty).then(|| host.to_owned())
}

/// A text with its `%61` read.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let number =
            behind.get(..2).filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let number = number.and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{at_port, globbed, of_proxy, of_remote_path, of_url};

    #[test]
    fn urls_name_their_host_without_user_and_path() {
        let rows = [
            ("https://Example.org/a?b#c", Some("example.org:443")),
            ("http://user:pass@host.test:8080/x", Some("host.test:8080")),
            ("http://a@b@c/x", Some("c:80")),
            ("localhost:8080/x", Some("localhost:8080")),
            ("169.254.169.254/latest", Some("169.254.169.254")),
            ("http://[::1]:80/", Some("[::1]:80")),
            ("http:\\\\127.0.0.1\\x", Some("127.0.0.1:80")),
            ("http:/example.org/x", Some("example.org:80")),
            ("example.org/x", Some("example.org")),
            ("wss://example.org", Some("example.org:443")),
            ("http://example.org:/x", Some("example.org:80")),
            ("http://[::1]/x", Some("[::1]:80")),
            ("http://ex%61mple%2Eorg/%61", Some("example.org:80")),
            ("http://100%/", Some("100%:80")),
            ("own://h/x", Some("h")),
            ("gopher://h:70/1", Some("h:70")),
            ("file:///etc/passwd", None),
            ("FILE:///etc/passwd", None),
            ("http://?x", None),
            ("", None),
        ];
        for (url, host) in rows {
            assert_eq!(of_url(url).as_deref(), host, "{url}");
        }
    }

    #[test]
    fn a_port_is_filled_in_where_none_is() {
        assert_eq!(at_port("::1", 22), "[::1]:22");
        assert_eq!(at_port("[::1]:2", 22), "[::1]:2");
        assert_eq!(at_port("h:", 22), "h:22");
        assert_eq!(of_proxy("http://p/").as_deref(), Some("p"));
    }

    #[test]
    fn patterns_of_curl_are_the_urls_they_make() {
        let rows: [(&str, Option<&[&str]>); 13] = [
            ("http://a/{b,c}", Some(&["http://a/{b,c}"])),
            ("http://{a,b}.c/", Some(&["http://a.c/", "http://b.c/"])),
            ("http://{a/,b}.c/", Some(&["http://a/.c/", "http://b.c/"])),
            ("{http,ftp}://a", Some(&["http://a", "ftp://a"])),
            ("{a,b}[1-2]", Some(&["a1", "a2", "b1", "b2"])),
            ("http://h[08-10:2]", Some(&["http://h08", "http://h10"])),
            ("http://[a-c]", Some(&["http://a", "http://b", "http://c"])),
            ("http://[::1]:{1,2}", Some(&["http://[::1]:1", "http://[::1]:2"])),
            ("http://[fe80::1%25eth0]/", Some(&["http://[fe80::1%25eth0]/"])),
            ("http://[ab]", None),
            ("http://{a", None),
            ("http://h[1-2:0]", None),
            ("http://h[1-4000000000]", None),
        ];
        for (text, urls) in rows {
            assert_eq!(
                globbed(text).as_deref(),
                urls.map(|urls| urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>()).as_deref(),
                "{text}"
            );
        }
        assert_eq!(globbed(&"{a,b}".repeat(60)), None);
    }

    #[test]
    fn remote_paths_name_a_host_and_local_ones_none() {
        let rows = [
            ("user@host:/srv", Some("host")),
            ("host:dir", Some("host")),
            ("host::module", Some("host")),
            ("[fe80::1]:x", Some("fe80::1")),
            ("rsync://host/m", Some("host:873")),
            ("scp://me@host:24/m", Some("host:24")),
            ("./a:b", None),
            ("dir/x", None),
            ("C:\\x", None),
            (":x", None),
        ];
        for (path, host) in rows {
            assert_eq!(of_remote_path(path).as_deref(), host, "{path}");
        }
    }
}
