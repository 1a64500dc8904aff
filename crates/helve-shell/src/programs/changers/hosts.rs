//! Hosts in arguments: what a URL or a `host:port` names.

/// The host of a URL, or of what a program takes for one when the scheme is missing, with the port where one is given.
/// None if the text names no host, as `file:///x` and an empty text do.
pub(crate) fn of_url(text: &str) -> Option<String> {
    let text = text.trim();
    let rest = match text.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => {
            if scheme.eq_ignore_ascii_case("file") {
                return None;
            }
            rest
        }
        Some(_) => text,
        // Programs that fetch read `http:/host` and `//host` as well.
        None => match text.split_once(':') {
            Some((scheme, rest)) if is_web_scheme(scheme) => rest,
            _ => text,
        },
    };
    authority(rest.trim_start_matches(['/', '\\']))
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
    let host = authority.rsplit('@').next().unwrap_or(authority).to_ascii_lowercase();
    let is_empty = host.is_empty() || host.starts_with(':');
    (!is_empty).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::{of_remote_path, of_url};

    #[test]
    fn urls_name_their_host_without_user_and_path() {
        let rows = [
            ("https://Example.org/a?b#c", Some("example.org")),
            ("http://user:pass@host.test:8080/x", Some("host.test:8080")),
            ("http://a@b@c/x", Some("c")),
            ("localhost:8080/x", Some("localhost:8080")),
            ("169.254.169.254/latest", Some("169.254.169.254")),
            ("http://[::1]:80/", Some("[::1]:80")),
            ("http:\\\\127.0.0.1\\x", Some("127.0.0.1")),
            ("http:/example.org/x", Some("example.org")),
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
    fn remote_paths_name_a_host_and_local_ones_none() {
        let rows = [
            ("user@host:/srv", Some("host")),
            ("host:dir", Some("host")),
            ("host::module", Some("host")),
            ("[fe80::1]:x", Some("fe80::1")),
            ("rsync://host:873/m", Some("host:873")),
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
