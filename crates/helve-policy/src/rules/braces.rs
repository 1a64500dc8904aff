//! Braces in command patterns and path globs: `{a,b}` stands for each of its alternatives.

/// How many words braces may stand for, and how deep they may nest.
const MAX_CHOICES: usize = 256;
const MAX_DEPTH: usize = 8;

/// A character of a word and whether it may mean something: it was not quoted.
pub(super) type Mark = (char, bool);

/// All words that braces stand for. Braces without a comma are ordinary characters, as in a shell.
pub(super) fn expand(word: &[Mark]) -> Result<Vec<Vec<Mark>>, String> {
    expand_at(word, 0)
}

fn expand_at(word: &[Mark], depth: usize) -> Result<Vec<Vec<Mark>>, String> {
    let too_many =
        || format!("the braces stand for more than {MAX_CHOICES} words or nest too deep; write fewer");
    let Some((before, alternatives, after)) = braces(word) else { return Ok(vec![word.to_vec()]) };
    if depth >= MAX_DEPTH {
        return Err(too_many());
    }
    let tails = expand_at(after, depth + 1)?;
    let mut words = Vec::new();
    for alternative in alternatives {
        for middle in expand_at(alternative, depth + 1)? {
            for tail in &tails {
                if words.len() >= MAX_CHOICES {
                    return Err(too_many());
                }
                words.push([before, &middle, tail].concat());
            }
        }
    }
    Ok(words)
}

/// The text before braces, their alternatives, and the text after them.
type Braces<'a> = (&'a [Mark], Vec<&'a [Mark]>, &'a [Mark]);

/// The text before the first braces that hold a comma, their alternatives, and the text after them.
fn braces(word: &[Mark]) -> Option<Braces<'_>> {
    // Each `{` with its alternatives so far: where it stands and its commas.
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut first: Option<(usize, Vec<usize>, usize)> = None;
    for (at, mark) in word.iter().enumerate() {
        match mark {
            ('{', true) => open.push((at, Vec::new())),
            (',', true) => {
                if let Some((_, commas)) = open.last_mut() {
                    commas.push(at);
                }
            }
            ('}', true) => {
                if let Some((start, commas)) = open.pop()
                    && !commas.is_empty()
                    && first.as_ref().is_none_or(|(found, ..)| start < *found)
                {
                    first = Some((start, commas, at));
                }
            }
            _ => {}
        }
    }
    let (start, commas, end) = first?;
    let mut alternatives = Vec::new();
    let mut from = start + 1;
    for to in commas.into_iter().chain([end]) {
        alternatives.push(word.get(from..to)?);
        from = to + 1;
    }
    Some((word.get(..start)?, alternatives, word.get(end + 1..)?))
}
