//! The bounds of a command in words: what it did, and which limit of the owner's says how much it may.

use helve_core::LimitHit;

/// The name of the limit, as it stands under `[limits]`; `system_call` for what no limit bounds.
pub(super) fn name(hit: LimitHit) -> &'static str {
    match hit {
        LimitHit::Memory(_) => "exec_memory_bytes",
        LimitHit::Processes(_) => "exec_processes",
        LimitHit::Cpu(_) => "exec_cpu_seconds",
        LimitHit::Disk(_) => "exec_disk_bytes",
        LimitHit::File(_) => "exec_file_bytes",
        LimitHit::Layer(_) => "exec_layer_bytes",
        LimitHit::SystemCall => "system_call",
    }
}

/// What the command did, as the end of a sentence.
pub(super) fn sentence(hit: LimitHit) -> String {
    let did = match hit {
        LimitHit::Memory(bytes) => format!("it used more than {} of memory", amount(bytes)),
        LimitHit::Processes(count) => format!("it had more than {count} processes and threads at a time"),
        LimitHit::Cpu(seconds) => format!("it used more than {seconds} seconds of processor time"),
        LimitHit::Disk(bytes) => {
            format!("the free space of the disk fell by more than {} while it ran", amount(bytes))
        }
        LimitHit::File(bytes) => format!("a file that it wrote would have grown beyond {}", amount(bytes)),
        LimitHit::Layer(bytes) => {
            format!("what it changed in the workspace took more than {}", amount(bytes))
        }
        LimitHit::SystemCall => {
            return "it made a system call that the sandbox does not allow".to_owned();
        }
    };
    format!("{did} (limits.{})", name(hit))
}

/// Bytes in the largest unit that needs no fraction.
fn amount(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = units.into_iter().find(|(size, _)| bytes >= *size && bytes.is_multiple_of(*size));
    whole.map_or_else(|| format!("{bytes} bytes"), |(size, unit)| format!("{} {unit}", bytes / size))
}

#[cfg(test)]
mod tests {
    use helve_core::Limits;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_bound_is_a_limit_that_the_owner_can_set() {
        let limits = Limits::default();
        for hit in [
            LimitHit::Memory(1),
            LimitHit::Processes(1),
            LimitHit::Cpu(1),
            LimitHit::Disk(1),
            LimitHit::File(1),
            LimitHit::Layer(1),
        ] {
            assert!(limits.get(name(hit)).is_some(), "{hit:?}");
            assert!(sentence(hit).ends_with(&format!("(limits.{})", name(hit))), "{hit:?}");
        }
    }

    #[test]
    fn bytes_are_exact() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1025, "1025 bytes"),
            (4 << 30, "4 GiB"),
            (1536 << 20, "1536 MiB"),
            (5 << 40, "5 TiB"),
        ] {
            assert_eq!(amount(bytes), text);
        }
    }
}
