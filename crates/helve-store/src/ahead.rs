//! Hashes of many lines, as far as they can be taken before it is known where the lines stand.
//!
//! In: how lines begin. Out: for each of them what its hash has come to there; and, once the line is whole, its BLAKE3. A line
//! names the hash of the one before it only near its end, so what stands before that is hashed side by side, in one processor's
//! lanes: sixteen beginnings take little more than one of them would.
//!
//! The library has that in a module which it keeps to itself but does not close; `Cargo.toml` holds it to versions that are known
//! to have it, and the tests hold every hash against the library's own.

use blake3::platform::{Platform, words_from_le_bytes_32};
use blake3::{BLOCK_LEN, CHUNK_LEN, Hash, IncrementCounter, OUT_LEN};

use crate::line::ENDING_BYTES;

/// So many lines are begun together.
pub(crate) const LANES: usize = 16;
/// A line of more than one chunk is hashed by itself, so what begins together has fewer than so many blocks.
const MOST_BLOCKS: usize = (CHUNK_LEN - ENDING_BYTES) / BLOCK_LEN;

/// What every hash begins with.
const BEGIN: [u32; 8] =
    [0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A, 0x510E_527F, 0x9B05_688C, 0x1F83_D9AB, 0x5BE0_CD19];
/// What is said of the first block of a chunk, of its last one, and of that of a whole text.
const CHUNK_START: u8 = 1;
const CHUNK_END: u8 = 2;
const ROOT: u8 = 8;

/// How far the hash of a line has come.
#[derive(Clone, Copy)]
pub(crate) struct Begun {
    state: [u32; 8],
    /// How many blocks were taken.
    blocks: usize,
}

/// Begins the hashes of at most [`LANES`] lines that begin so.
pub(crate) fn begin<'s>(starts: impl ExactSizeIterator<Item = &'s [u8]>) -> [Begun; LANES] {
    let mut begun = [Begun { state: BEGIN, blocks: 0 }; LANES];
    let mut inputs: [&[u8]; LANES] = [&[]; LANES];
    // One alone is not quicker in two parts.
    if starts.len() > 1 {
        for ((input, begun), start) in inputs.iter_mut().zip(&mut begun).zip(starts) {
            *input = start;
            begun.blocks = Some(start.len() / BLOCK_LEN).filter(|blocks| *blocks <= MOST_BLOCKS).unwrap_or(0);
        }
        for blocks in 1..=MOST_BLOCKS {
            if begun.iter().any(|one| one.blocks == blocks) {
                side_by_side(blocks, &inputs, &mut begun);
            }
        }
    }
    begun
}

/// Begins those that have so many blocks.
fn side_by_side(blocks: usize, inputs: &[&[u8]; LANES], begun: &mut [Begun; LANES]) {
    macro_rules! of {
        ($($count:literal)*) => {
            match blocks {
                $($count => lanes::<{ $count * BLOCK_LEN }>(blocks, inputs, begun),)*
                _ => {}
            }
        };
    }
    // All up to MOST_BLOCKS.
    of!(1 2 3 4 5 6 7 8 9 10 11)
}

/// The same for a number that is known when this is compiled.
fn lanes<const BYTES: usize>(blocks: usize, inputs: &[&[u8]; LANES], begun: &mut [Begun; LANES]) {
    let mut wanted: [&[u8; BYTES]; LANES] = [&[0; BYTES]; LANES];
    let mut count = 0;
    for (input, _) in inputs.iter().zip(begun.iter()).filter(|(_, one)| one.blocks == blocks) {
        if let Some(input) = input.first_chunk() {
            wanted[count] = input;
            count += 1;
        }
    }
    let mut out = [0; LANES * OUT_LEN];
    let (still, none) = (IncrementCounter::No, 0);
    Platform::detect().hash_many(&wanted[..count], &BEGIN, 0, still, none, CHUNK_START, none, &mut out);
    let states = out.as_chunks::<OUT_LEN>().0;
    for (one, state) in begun.iter_mut().filter(|one| one.blocks == blocks).zip(states) {
        one.state = words_from_le_bytes_32(state);
    }
}

impl Begun {
    /// The hash of the whole line.
    pub(crate) fn finish(self, line: &[u8]) -> Hash {
        let Begun { mut state, blocks } = self;
        let rest = line.get(blocks * BLOCK_LEN..).filter(|rest| blocks > 0 && !rest.is_empty());
        let Some(rest) = rest.filter(|_| line.len() <= CHUNK_LEN) else { return blake3::hash(line) };
        let platform = Platform::detect();
        let (last, between) = match rest.as_chunks::<BLOCK_LEN>() {
            (between @ [.., last], []) => (last.as_slice(), &between[..between.len() - 1]),
            (between, last) => (last, between),
        };
        for block in between {
            platform.compress_in_place(&mut state, block, BLOCK_LEN as u8, 0, 0);
        }
        let mut block = [0; BLOCK_LEN];
        block[..last.len()].copy_from_slice(last);
        platform.compress_in_place(&mut state, &block, last.len() as u8, 0, CHUNK_END | ROOT);
        Hash::from_bytes(blake3::platform::le_bytes_from_words_32(&state))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_number_of_blocks_is_known() {
        let text: Vec<u8> = (0..4 * CHUNK_LEN).map(|at| (at % 251) as u8).collect();
        for bytes in (0..text.len()).step_by(7) {
            let start = &text[..bytes];
            let begun = begin([start; 3].into_iter());
            let is_begun = (1..=MOST_BLOCKS).contains(&(bytes / BLOCK_LEN));
            assert_eq!(
                begun.map(|one| one.blocks > 0)[..4],
                [is_begun, is_begun, is_begun, false],
                "{bytes}"
            );
            for rest in [0, 1, 63, 64, 65, 128, 200] {
                let line = &text[..(bytes + rest).min(text.len())];
                assert_eq!(begun[0].finish(line), blake3::hash(line), "{bytes} and {rest}");
            }
        }
    }

    proptest! {
        #[test]
        fn hashes_are_those_of_the_library(
            lines in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..900), 0_usize..300), 0..=LANES),
        ) {
            let begun = begin(lines.iter().map(|(start, _)| start.as_slice()));
            for ((start, rest), begun) in lines.iter().zip(begun) {
                let line = [start.as_slice(), &vec![b'x'; *rest]].concat();
                prop_assert_eq!(begun.finish(&line), blake3::hash(&line));
            }
        }
    }
}
