//! A search: which lines match.
//!
//! Where matching lines are skipped first, as for a second page, files are counted in a first pass, and only those that the
//! page shows are searched again for their lines: what is skipped takes no memory.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use grep_matcher::LineTerminator;
use grep_regex::RegexMatcher;
use grep_searcher::{Encoding, MmapChoice, Searcher, SearcherBuilder};
use helve_core::files::{FileKind, SearchMode, SearchRequest, Searched};
use helve_core::{Cancel, ToolError};

use super::answer::{Filling, Hits, Seen, Store, enough};
use super::crew::{self, Found, Visitor};
use super::filter::Filter;
use super::lines::{Collector, Want};
use super::pattern;
use super::tree::{Loaded, Place, SMALL_FILE, Tree};
use super::unread::Unread;
use crate::page;
use crate::rules::Rules;
use crate::source::Watched;

/// Bytes that all threads together hold of what they search: the longest line, or with `multiline` the largest file.
const HELD_BYTES: usize = 32 << 20;

struct Search<'a, T> {
    tree: &'a T,
    request: &'a SearchRequest,
    matcher: &'a RegexMatcher,
    want: Want,
    store: Store,
    unread: &'a Unread,
    cancel: &'a Cancel,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    searched: AtomicU64,
    binary: AtomicU64,
}

/// What one thread has.
struct Own {
    engine: Engine,
    buffer: Vec<u8>,
    behind: Seen,
}

pub(super) fn search<T: Tree>(
    tree: &T,
    rules: &Rules,
    request: &SearchRequest,
    cancel: &Cancel,
) -> Result<Searched, ToolError> {
    let matcher = pattern::compile(request)?;
    let filter = Filter::of_search(rules, tree.base(), request)?;
    let unread = Unread::default();
    // Lines that are skipped are only counted.
    let want = match request.mode {
        SearchMode::Lines if request.skip > 0 => Want::Count(enough(request)),
        _ => want(request, 0),
    };
    let search = Search {
        tree,
        request,
        matcher: &matcher,
        want,
        store: Store::new(request),
        unread: &unread,
        cancel,
        tally: Tally::default(),
    };
    crew::run(tree, &filter, &search, &unread, cancel)?;
    let mut answer = search.filled()?;
    answer.searched = search.tally.searched.into_inner();
    answer.binary = search.tally.binary.into_inner();
    (answer.unread, answer.unread_count) = unread.told(tree.prefix());
    Ok(answer)
}

/// What is wanted of a file of which so many matching lines are passed over.
fn want(request: &SearchRequest, skip: u64) -> Want {
    match request.mode {
        SearchMode::Files => Want::Any,
        SearchMode::Count => Want::Count(u64::MAX),
        SearchMode::Lines => Want::Lines { skip, most: request.limit as u64, bytes: request.max_bytes },
    }
}

/// Searches one file that the request named.
pub(super) fn search_one(
    reader: impl Read,
    shown: String,
    request: &SearchRequest,
    cancel: &Cancel,
) -> Result<Searched, ToolError> {
    let mut engine = Engine::new(&pattern::compile(request)?, request, 1);
    let skip = if request.mode == SearchMode::Lines { request.skip as u64 } else { 0 };
    let (unread, tally) = (Unread::default(), Tally::default());
    let looked = engine.stream(reader, want(request, skip), request.line_chars, cancel);
    let rest = if request.mode == SearchMode::Lines { 0 } else { request.skip as u64 };
    let mut filling = Filling::new(request, "", rest);
    match looked {
        _ if cancel.is_cancelled() => return Err(super::cancelled()),
        Ok(looked) => {
            if let Some(error) = &looked.stopped {
                unread.note(shown.as_bytes(), error);
            }
            if let Some(hits) = tally.note(looked) {
                filling.take(shown.into_bytes(), hits);
            }
        }
        Err(error) => unread.note(shown.as_bytes(), &error),
    }
    let mut answer = filling.answer;
    answer.searched = tally.searched.into_inner();
    answer.binary = tally.binary.into_inner();
    (answer.unread, answer.unread_count) = unread.told("");
    Ok(answer)
}

impl<T: Tree> Search<'_, T> {
    fn filled(&self) -> Result<Searched, ToolError> {
        let request = self.request;
        let files = self.store.files();
        if !matches!(self.want, Want::Count(_)) || request.mode != SearchMode::Lines {
            let mut filling = Filling::new(request, self.tree.prefix(), request.skip as u64);
            for (path, hits) in files {
                if !filling.take(path, hits) {
                    break;
                }
            }
            return Ok(filling.answer);
        }
        let mut skip = request.skip as u64;
        let mut filling = Filling::new(request, self.tree.prefix(), 0);
        let mut own = self.begin();
        for (path, counted) in files {
            if counted.count <= skip {
                skip -= counted.count;
                continue;
            }
            if self.cancel.is_cancelled() {
                return Err(super::cancelled());
            }
            let loaded = self.tree.load_again(&path, &mut own.buffer);
            let hits = self.looked(&mut own, loaded, want(request, std::mem::take(&mut skip)));
            match hits {
                Ok(Looked { hits, .. }) => {
                    if !filling.take(path, hits) {
                        break;
                    }
                }
                Err(error) => self.unread.note(&path, &error),
            }
        }
        Ok(filling.answer)
    }

    fn looked(&self, own: &mut Own, loaded: io::Result<Loaded<T::Reader>>, want: Want) -> io::Result<Looked> {
        let chars = self.request.line_chars;
        match loaded? {
            Loaded::Small => own.engine.slice(&own.buffer, want, chars),
            Loaded::Large(reader) => own.engine.stream(reader, want, chars, self.cancel),
        }
    }
}

impl<T: Tree> Visitor<T> for Search<'_, T> {
    type Own = Own;

    fn begin(&self) -> Own {
        let engine = Engine::new(self.matcher, self.request, crew::threads());
        Own { engine, buffer: Vec::new(), behind: Seen::default() }
    }

    fn takes(&self, kind: FileKind) -> bool {
        kind == FileKind::File
    }

    fn leaf(&self, own: &mut Own, found: &Found<'_, T::Dir>) {
        let loaded = self.tree.load(Place { ..found.at }, found.name, &mut own.buffer);
        match self.looked(own, loaded, self.want) {
            Ok(looked) => {
                if let Some(error) = &looked.stopped {
                    self.unread.note(found.path, error);
                }
                if let Some(hits) = self.tally.note(looked) {
                    self.store.add(found.path, hits);
                }
            }
            Err(_) if self.cancel.is_cancelled() => {}
            Err(error) => self.unread.note(found.path, &error),
        }
    }

    fn dir(&self, _: &mut Own, _: &Found<'_, T::Dir>) {}

    fn is_behind(&self, own: &mut Own, path: &[u8]) -> bool {
        self.store.cutoff.is_behind(&mut own.behind, path)
    }

    fn is_before(&self, _: &[u8]) -> bool {
        false
    }

    fn end(&self, _: Own) {}
}

/// What a file has.
#[derive(Default)]
struct Looked {
    hits: Hits,
    /// Whether it is no text and was passed over.
    binary: bool,
    /// Why it was not searched to its end.
    stopped: Option<io::Error>,
}

impl Tally {
    /// The matches of a file, if it has any.
    fn note(&self, Looked { hits, binary, .. }: Looked) -> Option<Hits> {
        self.searched.fetch_add(1, Ordering::Relaxed);
        if binary {
            self.binary.fetch_add(1, Ordering::Relaxed);
        }
        (hits.count > 0).then_some(hits)
    }
}

/// The searcher and the matcher of one thread, whose buffers and tables are used again for every file.
struct Engine {
    searchers: Searchers,
    matcher: RegexMatcher,
    multiline: bool,
    held: usize,
    /// How a large file begins.
    head: Vec<u8>,
}

/// A searcher, and one for files in another encoding, of which the last one is kept.
struct Searchers {
    builder: SearcherBuilder,
    plain: Searcher,
    decoding: Option<(&'static str, Searcher)>,
}

impl Searchers {
    /// The one for a file that begins so: text that is not UTF-8 is decoded as `read_file` does it.
    fn of(&mut self, head: &[u8]) -> &mut Searcher {
        let wanted = match is_utf8(head) {
            true => None,
            false => page::old_encoding(head),
        };
        let is_kept = |name| self.decoding.as_ref().is_some_and(|(kept, _)| *kept == name);
        if let Some(name) = wanted.filter(|name| !is_kept(*name))
            && let Ok(encoding) = Encoding::new(name)
        {
            self.decoding = Some((name, self.builder.clone().encoding(Some(encoding)).build()));
        }
        match &mut self.decoding {
            Some((kept, searcher)) if wanted == Some(*kept) => searcher,
            _ => &mut self.plain,
        }
    }
}

impl Engine {
    fn new(matcher: &RegexMatcher, request: &SearchRequest, threads: usize) -> Engine {
        let held = HELD_BYTES / threads.max(1);
        let lines = request.mode == SearchMode::Lines;
        let mut builder = SearcherBuilder::new();
        builder
            .memory_map(MmapChoice::never())
            .line_terminator(LineTerminator::crlf())
            .line_number(lines)
            .multi_line(request.multiline)
            .before_context(if lines { request.before } else { 0 })
            .after_context(if lines { request.after } else { 0 })
            .heap_limit(Some(held));
        let searchers = Searchers { plain: builder.build(), builder, decoding: None };
        Engine { searchers, matcher: matcher.clone(), multiline: request.multiline, held, head: Vec::new() }
    }

    fn slice(&mut self, bytes: &[u8], want: Want, chars: usize) -> io::Result<Looked> {
        if is_binary(bytes) {
            return Ok(Looked { binary: true, ..Looked::default() });
        }
        let mut collector = Collector::new(&self.matcher, want, chars);
        self.searchers.of(bytes).search_slice(&self.matcher, bytes, &mut collector)?;
        Ok(Looked { hits: collector.hits, ..Looked::default() })
    }

    fn stream(&mut self, reader: impl Read, want: Want, chars: usize, cancel: &Cancel) -> io::Result<Looked> {
        let mut reader = Watched { reader, cancel };
        self.head.clear();
        reader.by_ref().take(SMALL_FILE as u64).read_to_end(&mut self.head)?;
        if is_binary(&self.head) {
            return Ok(Looked { binary: true, ..Looked::default() });
        }
        let mut collector = Collector::new(&self.matcher, want, chars);
        let whole = self.head.as_slice().chain(reader);
        let searched = self.searchers.of(&self.head).search_reader(&self.matcher, whole, &mut collector);
        let stopped = match searched {
            Err(error) if error.to_string().contains("allocation limit") => Some(self.too_long()),
            searched => searched.map(|()| None)?,
        };
        Ok(Looked { hits: collector.hits, binary: false, stopped })
    }

    /// Why a file could not be searched, or not to its end.
    fn too_long(&self) -> io::Error {
        let most = self.held >> 20;
        io::Error::other(match self.multiline {
            true => format!("it is larger than {most} MiB, the most with multiline"),
            false => format!("it has a line longer than {most} MiB, and was searched only up to there"),
        })
    }
}

/// Whether bytes are UTF-8; where more may follow, a character may begin at their end.
fn is_utf8(head: &[u8]) -> bool {
    let may_go_on = head.len() >= SMALL_FILE;
    std::str::from_utf8(head).map_or_else(|error| may_go_on && error.error_len().is_none(), |_| true)
}

/// Whether a file is no text: there is a NUL character near its start. A later one is as any other control character.
fn is_binary(head: &[u8]) -> bool {
    let head = &head[..head.len().min(SMALL_FILE)];
    match head {
        [0xff, 0xfe, units @ ..] | [0xfe, 0xff, units @ ..] => {
            units.chunks_exact(2).any(|unit| unit == [0, 0])
        }
        _ => memchr::memchr(0, head).is_some(),
    }
}
