//! The limits of a command as numbers in a fixed order, for helpers that are told of them over a wire.

use helve_core::ProcessLimits;

/// How many there are.
pub(crate) const COUNT: usize = 7;

pub(crate) fn of_limits(limits: ProcessLimits) -> [u64; COUNT] {
    // Without a rest, so that a new limit cannot be forgotten.
    let ProcessLimits { open_files, file_bytes, memory_bytes, processes, cpu_seconds, disk_bytes, tmp_bytes } =
        limits;
    [open_files, file_bytes, memory_bytes, processes, cpu_seconds, disk_bytes, tmp_bytes]
}

pub(crate) fn to_limits(numbers: [u64; COUNT]) -> ProcessLimits {
    let [open_files, file_bytes, memory_bytes, processes, cpu_seconds, disk_bytes, tmp_bytes] = numbers;
    ProcessLimits { open_files, file_bytes, memory_bytes, processes, cpu_seconds, disk_bytes, tmp_bytes }
}
