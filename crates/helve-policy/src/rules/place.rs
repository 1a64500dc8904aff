//! Path globs and host names of rules.
//!
//! A glob works on the text of normal paths, part by part: `*`, `?` and `[…]` stay within a part, `**` is any number of
//! parts. A directory stands for all that is in it. Braces are alternatives and may reach across parts: each is a glob of its
//! own. Time is linear in the path.

mod glob;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Component, Path};

use helve_shell::analysis::{EffectKind, Target};

use glob::PartGlob;

use super::braces::{self, Mark};
use crate::guard;

/// The longest glob, in bytes, and the most parts of it: they fit the bits of a number.
const MAX_LENGTH: usize = 4096;
const MAX_PARTS: usize = 60;

/// Which paths a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathGlob {
    /// Whether it starts in the workspace, else at the root.
    in_workspace: bool,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// `**`: any number of parts.
    Any,
    One(PartGlob),
}

/// Where in a glob the parts of a path have led: bit `n` means that the first `n` parts of the glob are matched.
type Reached = u64;

impl PathGlob {
    /// Reads globs that may have braces, as `{src,test}/*.rs`. The error says what to change.
    pub(super) fn parse_all(text: &str, home: Option<&Path>) -> Result<Vec<Self>, String> {
        if text.len() > MAX_LENGTH {
            // Refused as it is.
            return PathGlob::parse(text, home).map(|glob| vec![glob]);
        }
        let plain = |word: Vec<Mark>| word.into_iter().map(|(ch, _)| ch).collect::<String>();
        let words = braces::expand(&glob::marked(text)).map_err(|problem| format!("{text:?}: {problem}"))?;
        words.into_iter().map(|word| PathGlob::parse(&plain(word), home)).collect()
    }

    /// Reads a glob without braces: relative ones lie in the workspace, those without any slash at any depth of it; `~/` is the home
    /// directory. The error says what to change.
    pub(crate) fn parse(text: &str, home: Option<&Path>) -> Result<Self, String> {
        if text.len() > MAX_LENGTH || text.contains('\0') {
            return Err(format!(
                "a path glob has at most {MAX_LENGTH} bytes and no NUL character; shorten it"
            ));
        }
        if text.starts_with('!') {
            return Err(format!("{text:?}: a glob cannot be turned round; write a rule for what is meant"));
        }
        let absolute = match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                let home = home.and_then(Path::to_str).ok_or_else(|| {
                    format!("{text:?} needs a home directory and HOME is not set; write the whole path")
                })?;
                Some(format!("{}{rest}", home.trim_end_matches('/')))
            }
            Some(_) => {
                return Err(format!("{text:?}: only `~/` stands for a home directory; write the whole path"));
            }
            None => text.starts_with('/').then(|| text.to_owned()),
        };
        let path = absolute.as_deref().unwrap_or(text);
        let mut parts = Vec::new();
        if absolute.is_none() && !path.trim_end_matches('/').contains('/') {
            parts.push(Part::Any);
        }
        for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
            match part {
                ".." => return Err(format!("{text:?}: `..` cannot stand in a glob; write the whole path")),
                "**" => {
                    if parts.last() != Some(&Part::Any) {
                        parts.push(Part::Any);
                    }
                }
                part => parts.push(Part::One(PartGlob::parse(part)?)),
            }
        }
        if parts.len() > MAX_PARTS {
            return Err(format!("{text:?} has more than {MAX_PARTS} parts; shorten it"));
        }
        if text.trim().is_empty() {
            return Err("an empty path stands for nothing; write `**` for all of the workspace".into());
        }
        Ok(PathGlob { in_workspace: absolute.is_none(), parts })
    }

    /// The same paths without the links that now lead to where an absolute glob starts; none if there are no such links.
    pub(super) fn resolved(&self) -> Option<Self> {
        if self.in_workspace {
            return None;
        }
        let name = |part: &Part| match part {
            Part::Any => None,
            Part::One(glob) => glob.literal(),
        };
        let names: Vec<String> = self.parts.iter().map_while(name).collect();
        let start = Path::new("/").join(names.join("/"));
        let real = guard::resolve(&start).filter(|real| *real != start)?;
        let real = real.to_str()?.split('/').filter(|name| !name.is_empty());
        let mut parts: Vec<Part> = real.map(|name| Part::One(PartGlob::of(name))).collect();
        parts.extend(self.parts.iter().skip(names.len()).cloned());
        (parts.len() <= MAX_PARTS).then_some(PathGlob { in_workspace: false, parts })
    }

    /// Whether the path, absolute and normal, is one of those meant or lies in one.
    pub(crate) fn holds(&self, path: &Path, workspace: &Path) -> bool {
        let Some(parts) = self.relative(path, workspace) else { return false };
        let mut reached = self.start();
        for part in parts {
            if self.is_whole(reached) {
                return true;
            }
            reached = self.step(reached, |glob| glob.matches(&part));
            if reached == 0 {
                return false;
            }
        }
        self.is_whole(reached)
    }

    /// Whether an effect on the target certainly stays among the paths meant.
    pub(super) fn holds_all(&self, target: &Target, workspace: &Path) -> bool {
        match target {
            Target::Path { path, .. } => self.holds(path, workspace),
            Target::Glob { under, pattern, .. } => {
                !pattern.split('/').any(|part| part == "..") && self.holds(under, workspace)
            }
            Target::Unknown | Target::Host(_) | Target::Machine => false,
        }
    }

    /// Whether an effect on the target touches one of the paths meant, as far as the target is known. Deleting a
    /// directory touches all that is in it.
    pub(super) fn touches(&self, target: &Target, kind: EffectKind, workspace: &Path) -> bool {
        match target {
            Target::Path { path, .. } => {
                self.holds(path, workspace)
                    || (kind == EffectKind::DeleteTree && self.leads_into(path, workspace))
            }
            Target::Glob { under, pattern, .. } => {
                if self.holds(under, workspace) {
                    return true;
                }
                let Some(parts) = self.relative(under, workspace) else {
                    return kind == EffectKind::DeleteTree && self.leads_into(under, workspace);
                };
                let mut reached = self.start();
                for part in parts {
                    reached = self.step(reached, |glob| glob.matches(&part));
                }
                for part in below(pattern) {
                    if self.is_whole(reached) {
                        return true;
                    }
                    reached = self.step(reached, |glob| glob.may_share(part));
                }
                self.is_whole(reached) || (kind == EffectKind::DeleteTree && reached != 0)
            }
            // Wherever it is, it is among all paths that there are.
            Target::Unknown => kind.is_on_path() && !self.in_workspace && self.parts == [Part::Any],
            Target::Host(_) | Target::Machine => false,
        }
    }

    /// The same paths as a pattern of a `.gitignore` file at the workspace's top; none if they do not lie in the workspace
    /// as far as their text tells.
    pub(crate) fn to_ignore_pattern(&self, workspace: &Path) -> Option<String> {
        let mut parts = self.parts.as_slice();
        if !self.in_workspace {
            for name in workspace.components() {
                let Component::Normal(name) = name else { continue };
                match parts.split_first()? {
                    (Part::One(glob), rest) if glob.matches(&name.to_string_lossy()) => parts = rest,
                    _ => return None,
                }
            }
        }
        let texts = parts.iter().map(|part| match part {
            Part::Any => "**".to_owned(),
            Part::One(glob) => glob.to_ignore_pattern(),
        });
        let texts: Vec<String> = texts.collect();
        Some(if texts.is_empty() { "/**".to_owned() } else { format!("/{}", texts.join("/")) })
    }

    /// Whether something that is meant can lie below the directory.
    fn leads_into(&self, directory: &Path, workspace: &Path) -> bool {
        let Some(parts) = self.relative(directory, workspace) else {
            // Above the workspace: all of it is below.
            return self.in_workspace && workspace.starts_with(directory);
        };
        let mut reached = self.start();
        for part in parts {
            reached = self.step(reached, |glob| glob.matches(&part));
        }
        reached != 0
    }

    /// The parts of a path below where the glob starts.
    fn relative<'a>(
        &self,
        path: &'a Path,
        workspace: &Path,
    ) -> Option<impl Iterator<Item = std::borrow::Cow<'a, str>>> {
        let path = if self.in_workspace { path.strip_prefix(workspace).ok()? } else { path };
        Some(path.components().filter_map(|part| match part {
            Component::Normal(part) => Some(part.to_string_lossy()),
            _ => None,
        }))
    }

    fn start(&self) -> Reached {
        self.pass_any(1)
    }

    /// Where one more part of a path leads.
    fn step(&self, reached: Reached, fits: impl Fn(&PartGlob) -> bool) -> Reached {
        let mut next = 0;
        for (at, part) in self.parts.iter().enumerate() {
            if reached & (1 << at) == 0 {
                continue;
            }
            match part {
                Part::Any => next |= 1 << at,
                Part::One(glob) if fits(glob) => next |= 1 << (at + 1),
                Part::One(_) => {}
            }
        }
        self.pass_any(next)
    }

    /// `**` may stand for nothing.
    fn pass_any(&self, mut reached: Reached) -> Reached {
        for (at, part) in self.parts.iter().enumerate() {
            if reached & (1 << at) != 0 && *part == Part::Any {
                reached |= 1 << (at + 1);
            }
        }
        reached
    }

    fn is_whole(&self, reached: Reached) -> bool {
        reached & (1 << self.parts.len()) != 0
    }
}

/// The parts of a pattern of the shell from the first active one on; what is before them is the directory that holds
/// all matches.
pub(super) fn below(pattern: &str) -> impl Iterator<Item = &str> {
    let parts = pattern.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.skip_while(|part| !part.contains(['*', '?', '[']))
}

/// Which hosts a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPattern {
    /// Lower case, without a trailing dot; empty for any.
    name: String,
    /// Whether it is about what ends in the name, below it.
    below: bool,
    port: Option<u16>,
}

impl HostPattern {
    /// Reads `example.org`, `*.example.org`, `*`, each with `:port` or not. The error says what to change.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "expected a host such as \"example.org\", \"*.example.org\" or \"example.org:8080\", received {text:?}"
            )
        };
        if text.contains("://") || text.contains('/') {
            return Err(format!("{} (write the host alone, without scheme and path)", wrong()));
        }
        let (name, port) = host_and_port(text).ok_or_else(wrong)?;
        let port = match port {
            Port::Unsaid => None,
            Port::Number(port) => Some(port),
            Port::Unread => return Err(wrong()),
        };
        if name == "*" {
            return Ok(HostPattern { name: String::new(), below: true, port });
        }
        let (name, below) = match name.strip_prefix("*.") {
            Some(name) => (name.to_owned(), true),
            None => (name, false),
        };
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._:".contains(&b);
        if name.is_empty() || name.len() > 253 || !name.bytes().all(plain) {
            return Err(wrong());
        }
        Ok(HostPattern { name, below, port })
    }

    /// Whether it is about every host, so that it is about one that nobody knows, too.
    pub(super) fn is_any(&self) -> bool {
        self.below && self.name.is_empty() && self.port.is_none()
    }

    /// Whether the host of an effect is certainly one of those meant.
    pub(super) fn holds(&self, host: &str) -> bool {
        let Some((name, port)) = host_and_port(host) else { return false };
        self.names(&name)
            && match port {
                Port::Number(port) => self.port.is_none_or(|wanted| port == wanted),
                Port::Unsaid => self.port.is_none(),
                Port::Unread => false,
            }
    }

    /// Whether the host of an effect may be one of those meant. One without a port is all of its ports, but for rules
    /// about a port of any host: what has none, such as `ping`, would be held by each of them.
    pub(super) fn may_hold(&self, host: &str) -> bool {
        let Some((name, port)) = host_and_port(host) else { return false };
        self.names(&name)
            && match port {
                Port::Number(port) => self.port.is_none_or(|wanted| port == wanted),
                Port::Unsaid => self.port.is_none() || !self.name.is_empty(),
                Port::Unread => true,
            }
    }

    fn names(&self, name: &str) -> bool {
        match self.below {
            true if self.name.is_empty() => true,
            true => name.strip_suffix(&self.name).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            false => name == self.name,
        }
    }
}

/// What is said of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Unsaid,
    Number(u16),
    /// The name of a service, a range, or no port at all.
    Unread,
}

/// The name in lower case, or the address as it is usually written, and the port, of `name`, `name:port`, `[::1]:port` or
/// `::1`.
fn host_and_port(text: &str) -> Option<(String, Port)> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']')?;
            (name, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None if text.matches(':').count() == 1 => {
            text.split_once(':').map(|(name, port)| (name, Some(port)))?
        }
        None => (text, None),
    };
    let port = match port {
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => {
            port.parse().map_or(Port::Unread, Port::Number)
        }
        Some(_) => Port::Unread,
        None => Port::Unsaid,
    };
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let name = address(&name).map_or(name, |address| address.to_string());
    (!name.is_empty()).then_some((name, port))
}

/// The address that a name is, in any way in which programs read one: `127.1`, `0x7f000001`, `::ffff:127.0.0.1`.
fn address(name: &str) -> Option<IpAddr> {
    // A zone says through which card an address is reached.
    if let Ok(address) = name.split('%').next().unwrap_or(name).parse::<Ipv6Addr>() {
        return Some(address.to_canonical());
    }
    let parts: Vec<u32> = name.split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = parts.split_last()?;
    // The last number fills what is left.
    let left = 32_u32.checked_sub(8 * u32::try_from(first.len()).ok()?).filter(|left| *left > 0)?;
    let fits = first.iter().all(|part| *part < 256) && (left == 32 || *last < 1 << left);
    let bits = first.iter().zip([24, 16, 8]).fold(*last, |bits, (part, shift)| bits | part << shift);
    fits.then(|| Ipv4Addr::from_bits(bits).into())
}

/// A number as C writes it: decimal, octal behind `0`, hexadecimal behind `0x`.
fn number(text: &str) -> Option<u32> {
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(""), _) | (None, Some("")) => Some(0),
        (Some(digits), _) => u32::from_str_radix(digits, 16).ok(),
        (None, Some(digits)) => u32::from_str_radix(digits, 8).ok(),
        (None, None) => text.parse().ok(),
    }
}
