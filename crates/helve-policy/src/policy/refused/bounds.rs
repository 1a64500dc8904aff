//! Bounds that a command passed: the limit that says how much it may, and twice as much.

use std::time::Duration;

use helve_core::{Explained, LimitHit};

use super::{Found, Grant, Refused, Rule, nothing};
use crate::config::keys;
use crate::policy::Policy;

impl Policy {
    /// A bound that was passed, and twice as much. How much would have been enough nobody knows.
    pub(super) fn passed(&self, hit: LimitHit) -> Refused {
        let (name, value, subject) = match hit {
            LimitHit::Memory(bytes) => {
                ("exec_memory_bytes", bytes, format!("use more than {} of memory", amount(bytes)))
            }
            LimitHit::Processes(count) => {
                ("exec_processes", count, format!("have more than {count} processes and threads at a time"))
            }
            LimitHit::Cpu(seconds) => {
                ("exec_cpu_seconds", seconds, format!("use more than {seconds} seconds of processor time"))
            }
            LimitHit::Disk(bytes) => {
                ("exec_disk_bytes", bytes, format!("take more than {} of the disk", amount(bytes)))
            }
            LimitHit::File(bytes) => {
                ("exec_file_bytes", bytes, format!("write a file of more than {}", amount(bytes)))
            }
            LimitHit::Layer(bytes) => {
                ("exec_layer_bytes", bytes, format!("change more than {} of the workspace", amount(bytes)))
            }
            LimitHit::SystemCall => {
                let note = Some("the filter ends whoever makes it".to_owned());
                return Refused {
                    act: "system_call",
                    subject: "one that the sandbox does not allow".to_owned(),
                    rule: Rule::Filter,
                    grants: Vec::new(),
                    note,
                    times: 1,
                };
            }
        };
        let key = format!("limits.{name}");
        let Found { grants, note } =
            self.unless_tightened(&[&key], || doubled(Grant::Limit(name, value.saturating_mul(2))));
        Refused { act: Explained::LIMIT, subject, rule: Rule::Limit(name, value), grants, note, times: 1 }
    }

    /// A command that ran out of time.
    pub(super) fn out_of_time(&self, timeout: Duration) -> Refused {
        let seconds = timeout.as_secs();
        let most = self.limits().exec_timeout_max;
        let twice = seconds.saturating_mul(2);
        let (rule, found) = if seconds == self.exec_timeout().as_secs() {
            let found = self.unless_tightened(&[keys::EXEC_TIMEOUT, "limits.exec_timeout_default"], || {
                let mut found = doubled(Grant::Timeout(twice));
                found.grants.extend((twice > most).then_some(Grant::Limit("exec_timeout_max", twice)));
                found
            });
            (Rule::Time(seconds), found)
        } else if seconds >= most {
            let found = doubled(Grant::Limit("exec_timeout_max", twice));
            (Rule::Limit("exec_timeout_max", most), found)
        } else {
            (
                Rule::Time(seconds),
                nothing(&format!("the call chose it itself, and may ask for up to {most} seconds")),
            )
        };
        Refused {
            act: Explained::LIMIT,
            subject: format!("run longer than {seconds} seconds"),
            rule,
            grants: found.grants,
            note: found.note,
            times: 1,
        }
    }
}

fn doubled(grant: Grant) -> Found {
    Found { grants: vec![grant], note: Some("twice as much; how much is enough is not known".to_owned()) }
}

/// Bytes in the largest unit that needs no fraction.
fn amount(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = units.into_iter().find(|(size, _)| bytes >= *size && bytes.is_multiple_of(*size));
    whole.map_or_else(|| format!("{bytes} bytes"), |(size, unit)| format!("{} {unit}", bytes / size))
}
