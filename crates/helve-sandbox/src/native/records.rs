//! The records of [`super::wire`] as bytes, and back. Numbers are in the machine's own order, each record as its
//! `repr(C)` lies in memory; none of them has a gap.

use super::wire::{Guard, Make, Report, Request, Signal, Told};

/// The bytes of a [`Told`] or a [`Report`].
pub(super) const RECORD_BYTES: usize = 24;

impl Make {
    /// As bytes.
    pub(super) fn to_bytes(self) -> [u8; 16] {
        let mut out = [0; 16];
        let numbers = [self.tag.to_ne_bytes(), self.kind.to_ne_bytes()];
        let id = self.id.to_ne_bytes();
        fill(&mut out, numbers.iter().flatten().chain(&id));
        out
    }
}

impl Guard {
    /// As bytes.
    pub(super) fn to_bytes(self) -> [u8; 8] {
        let mut out = [0; 8];
        fill(&mut out, [self.tag.to_ne_bytes(), self.in_file.to_ne_bytes()].iter().flatten());
        out
    }
}

impl Request {
    /// As bytes.
    pub(super) fn to_bytes(self) -> [u8; 28] {
        let mut out = [0; 28];
        let Request { tag, length, streams, in_file, terminal, texts, copied } = self;
        let numbers = [tag, length, streams, in_file, terminal, texts, copied];
        fill(&mut out, numbers.map(u32::to_ne_bytes).iter().flatten());
        out
    }
}

impl Signal {
    /// As bytes.
    pub(super) fn to_bytes(self) -> [u8; 8] {
        let mut out = [0; 8];
        fill(&mut out, [self.tag.to_ne_bytes(), self.number.to_ne_bytes()].iter().flatten());
        out
    }
}

impl Told {
    /// From bytes; none if they are no such record.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Told> {
        let (head, id) = split(bytes)?;
        let [tag, step, errno, warm] = head;
        Some(Told { tag, step, errno: errno.cast_signed(), warm, id })
    }
}

impl Report {
    /// From bytes; none if they are no such record.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Report> {
        let (head, left_running) = split(bytes)?;
        let [tag, status, step, bound] = head;
        Some(Report { tag, status: status.cast_signed(), step, bound, left_running })
    }
}

fn fill<'a>(out: &mut [u8], bytes: impl Iterator<Item = &'a u8>) {
    out.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
}

/// Four short numbers and a long one.
fn split(bytes: &[u8]) -> Option<([u32; 4], u64)> {
    let whole: &[u8; RECORD_BYTES] = bytes.try_into().ok()?;
    let (head, last) = whole.split_at(16);
    let mut numbers = [0; 4];
    for (number, bytes) in numbers.iter_mut().zip(head.as_chunks().0) {
        *number = u32::from_ne_bytes(*bytes);
    }
    Some((numbers, u64::from_ne_bytes(last.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_record_lies_as_the_other_side_reads_it() {
        assert_eq!(size_of::<Make>(), 16);
        assert_eq!(size_of::<Guard>(), 8);
        assert_eq!(size_of::<Request>(), 28);
        assert_eq!(size_of::<Signal>(), 8);
        assert_eq!(
            Signal { tag: 4, number: 15 }.to_bytes().as_slice(),
            [4_u32, 15].map(u32::to_le_bytes).concat()
        );
        assert_eq!(size_of::<Told>(), RECORD_BYTES);
        assert_eq!(size_of::<Report>(), RECORD_BYTES);
        let make = Make { tag: 1, kind: 2, id: 3 };
        assert_eq!(make.to_bytes().as_slice(), [1_u32, 2, 3, 0].map(u32::to_le_bytes).concat());
        let request = Request { tag: 3, length: 4, streams: 1, in_file: 0, terminal: 1, texts: 5, copied: 6 };
        assert_eq!(request.to_bytes().as_slice(), [3_u32, 4, 1, 0, 1, 5, 6].map(u32::to_le_bytes).concat());
        assert_eq!(
            Guard { tag: 2, in_file: 1 }.to_bytes().as_slice(),
            [2_u32, 1].map(u32::to_le_bytes).concat()
        );
    }

    #[test]
    fn what_was_said_is_read_number_by_number() {
        let bytes = [2_u32, 4, u32::MAX, 1, 9, 0].map(u32::to_ne_bytes).concat();
        let told = Told { tag: 2, step: 4, errno: -1, warm: 1, id: 9 };
        assert_eq!(Told::from_bytes(&bytes), Some(told));
        let report = Report { tag: 2, status: 4, step: u32::MAX, bound: 1, left_running: 9 };
        assert_eq!(Report::from_bytes(&bytes), Some(report));
        assert_eq!(Report::from_bytes(&bytes[1..]), None);
        assert_eq!(Told::from_bytes(b""), None);
    }
}
