//! Programs that format, partition, wipe and attach disks.

use super::reading::{asks_for_help, deeds, first_word, mentions};
use super::{Invocation, Meaning, On};
use crate::analysis::{Arg, EffectKind};

pub(super) fn understand(program: &str, invocation: &Invocation<'_>) -> Option<Meaning> {
    let args = invocation.args;
    let harmful = match program {
        "mkfs" => !mentions(args, &["-h"]),
        "mke2fs" | "mkswap" | "mkdosfs" | "mkntfs" | "mkexfatfs" | "mkudffs" | "mkreiserfs" | "newfs"
        | "resize2fs" => !mentions(args, &["-h", "-V", "-n"]),
        "fdisk" | "sfdisk" | "cfdisk" | "gdisk" | "cgdisk" => !mentions(
            args,
            &[
                "-l",
                "--list",
                "-h",
                "-V",
                "-v",
                "-x",
                "--list-details",
                "-d",
                "--dump",
                "-J",
                "--json",
                "-s",
                "--show-size",
                "-F",
                "--list-free",
                "-T",
                "--list-types",
            ],
        ),
        "sgdisk" => !args.iter().all(|arg| {
            arg.text().is_some_and(|text| {
                !text.starts_with('-') || matches!(text, "-p" | "--print" | "-v" | "-V" | "-h")
            }) || arg.prefix().starts_with("-i")
        }),
        "parted" | "partprobe" => program == "parted" && parted_changes(args),
        "wipefs" => has_letter(args, 'a') || has_letter(args, 'o') || has_long(args, &["--all", "--offset"]),
        "blkdiscard" | "nwipe" | "sg_format" | "lvremove" | "vgremove" | "pvremove" | "pvcreate"
        | "vgreduce" | "lvreduce" | "grub-install" | "grub2-install" => {
            !mentions(args, &["-h", "-V", "-t", "--test"])
        }
        "hdparm" => has_long(
            args,
            &[
                "--security-erase",
                "--trim-sector",
                "--write-sector",
                "--make-bad-sector",
                "--repair-sector",
                "--fwdownload",
                "--dco-restore",
                "--security-set-pass",
                "--sanitize",
            ],
        ),
        "badblocks" => has_letter(args, 'w'),
        "zpool" => matches!(
            first_word(args),
            Some((_, "destroy" | "create" | "labelclear" | "remove" | "split" | ""))
        ),
        "zfs" => matches!(first_word(args), Some((_, "destroy" | "rollback" | ""))),
        "mdadm" => {
            has_long(args, &["--zero-superblock", "--create", "--build"]) || mentions(args, &["-C", "-B"])
        }
        "nvme" => matches!(
            first_word(args),
            Some((
                _,
                "format"
                    | "sanitize"
                    | "write-zeroes"
                    | "dsm"
                    | "delete-ns"
                    | "create-ns"
                    | "fw-download"
                    | ""
            ))
        ),
        "diskutil" => diskutil_changes(args),
        "dmsetup" => {
            matches!(first_word(args), Some((_, "remove" | "remove_all" | "wipe_table" | "create" | "load")))
        }
        "flashrom" => {
            has_letter(args, 'w') || has_letter(args, 'E') || has_long(args, &["--write", "--erase"])
        }
        "cryptsetup" => matches!(
            first_word(args),
            Some((
                _,
                "luksFormat" | "erase" | "luksErase" | "reencrypt" | "format" | "luksKillSlot" | "wipe" | ""
            ))
        ),
        _ if program.starts_with("mkfs.") || program.starts_with("newfs_") => {
            !mentions(args, &["-h", "-V", "-n"])
        }
        "flash_erase" | "flash_eraseall" | "scrub" => !mentions(args, &["-h", "-V"]),
        _ => return attach(program, args).or_else(|| copies(program, args)),
    };
    if !harmful || asks_for_help(args) || mentions(args, &["--no-act"]) {
        // `cryptsetup open` and its like attach a disk without changing it.
        return Some(attach(program, args).unwrap_or_default());
    }
    let targets = targets(args);
    let no_target_needed =
        matches!(program, "fdisk" | "cfdisk" | "gdisk" | "cgdisk" | "parted" | "zpool" | "dmsetup");
    Some(match targets.as_slice() {
        [] if args.is_empty() && !no_target_needed => Meaning::default(),
        [] => deeds([(EffectKind::Device, On::Machine)]),
        // What is not below `/dev` is an image file to the programs that make file systems, a name to the others.
        targets => deeds(targets.iter().map(|target| {
            let is_path = program.starts_with("mk") || args[*target].prefix().starts_with("/dev/");
            let is_path = is_path || args[*target].text().is_none();
            (EffectKind::Device, if is_path { On::Arg(*target) } else { On::Machine })
        })),
    })
}

/// Programs that copy an image, usually onto a disk: the argument that is written.
fn copies(program: &str, args: &[Arg]) -> Option<Meaning> {
    let operands: Vec<usize> = (0..args.len()).filter(|at| !args[*at].prefix().starts_with('-')).collect();
    let behind = |option: &str| {
        let at = args.iter().position(|arg| arg.text() == Some(option))?;
        (at + 1 < args.len()).then_some(On::Arg(at + 1))
    };
    let named = |name: &str| {
        let at = args.iter().position(|arg| arg.prefix().starts_with(name))?;
        Some(On::Tail(at, name.len()))
    };
    let operand = |index: usize| operands.get(index).copied().map(On::Arg);
    let written = match program {
        "ddrescue" | "dd_rescue" => {
            // Its options may take a value, so that a disk counts wherever it stands behind the first operand.
            let disk = operands.iter().skip(1).find(|at| args[**at].prefix().starts_with("/dev/"));
            disk.copied().map(On::Arg).or_else(|| operand(1))
        }
        "flashcp" => operand(1),
        "nandwrite" => {
            operands.iter().find(|at| args[**at].prefix().starts_with("/dev/")).copied().map(On::Arg)
        }
        "qemu-img" => match args.first().and_then(Arg::text) {
            Some("convert") if operands.len() > 2 => operands.last().copied().map(On::Arg),
            Some("dd") => named("of="),
            Some("create" | "resize" | "commit" | "rebase" | "amend") => None,
            _ => return Some(Meaning::default()),
        },
        _ if program.starts_with("partclone.") || program == "partimage" => behind("-o")
            .or_else(|| behind("-O"))
            .or_else(|| named("--output="))
            .or_else(|| behind("--output")),
        _ => return None,
    };
    Some(deeds(written.map(|on| (EffectKind::Write, on))))
}

/// Programs that make a disk's content appear or vanish.
fn attach(program: &str, args: &[Arg]) -> Option<Meaning> {
    let harmful = match program {
        "mount" => mounts(args),
        "umount" | "fusermount" | "fusermount3" => !args.is_empty() && !mentions(args, &["-V", "-h"]),
        "losetup" => !args.is_empty() && !mentions(args, &["-a", "--all", "-l", "--list", "-f", "-h", "-V"]),
        "cryptsetup" => {
            matches!(
                first_word(args),
                Some((_, "open" | "close" | "luksOpen" | "luksClose" | "luksAddKey" | "resize"))
            )
        }
        "swapoff" => true,
        "swapon" => !args.is_empty() && !mentions(args, &["-s", "--show", "--summary"]),
        "pivot_root" | "quotaon" | "quotaoff" => true,
        _ => return None,
    };
    let deed = (harmful && !asks_for_help(args)).then_some((EffectKind::Privilege, On::Machine));
    Some(deeds(deed))
}

/// Whether `mount` is told what to mount; else it lists, also by type or verbosely.
fn mounts(args: &[Arg]) -> bool {
    let takes_value =
        |arg: &Arg| matches!(arg.text(), Some("-t" | "-o" | "-O" | "--types" | "--options" | "--test-opts"));
    let is_value = |at: usize| at.checked_sub(1).is_some_and(|before| takes_value(&args[before]));
    let names_something = |at: usize| {
        let text = args[at].prefix();
        !text.starts_with('-') || matches!(text, "-a" | "--all" | "-L" | "-U") || text.starts_with("--source")
    };
    (0..args.len()).any(|at| !is_value(at) && names_something(at)) && !mentions(args, &["-h", "-V"])
}

/// The arguments that are disks: those below `/dev` or unknown, or else the last word.
fn targets(args: &[Arg]) -> Vec<usize> {
    let is_disk = |arg: &Arg| arg.prefix().starts_with("/dev/") || arg.text().is_none();
    let disks: Vec<usize> = (0..args.len()).filter(|at| is_disk(&args[*at])).collect();
    if !disks.is_empty() {
        return disks;
    }
    args.iter().rposition(|arg| !arg.prefix().starts_with('-')).into_iter().collect()
}

fn has_long(args: &[Arg], names: &[&str]) -> bool {
    args.iter().any(|arg| names.iter().any(|name| arg.prefix().starts_with(name)))
}

/// Whether a letter is in a cluster of options.
fn has_letter(args: &[Arg], letter: char) -> bool {
    args.iter().any(|arg| {
        let cluster = arg.prefix().strip_prefix('-');
        cluster.is_some_and(|cluster| !cluster.starts_with('-') && cluster.contains(letter))
    })
}

fn parted_changes(args: &[Arg]) -> bool {
    if has_letter(args, 'l') || has_long(args, &["--list"]) || mentions(args, &["-v", "-h"]) {
        return false;
    }
    let words = args.iter().filter(|arg| !arg.prefix().starts_with('-')).skip(1);
    let mut any = false;
    for word in words {
        any = true;
        match word.text() {
            Some(
                "print" | "unit" | "free" | "all" | "help" | "align-check" | "optimal" | "s" | "B" | "MiB"
                | "GB",
            ) => {}
            _ => return true,
        }
    }
    !any
}

fn diskutil_changes(args: &[Arg]) -> bool {
    let mut verbs =
        args.iter().filter(|arg| !arg.prefix().starts_with('-')).map(|arg| arg.text().unwrap_or(""));
    let verb = match verbs.next() {
        Some("apfs" | "coreStorage" | "cs" | "appleRAID" | "ar") => verbs.next(),
        verb => verb,
    };
    verb.is_some_and(|verb| {
        let verb = verb.to_ascii_lowercase();
        ["erase", "partition", "zero", "random", "secureerase", "delete", "reformat", "merge", "split"]
            .iter()
            .any(|start| verb.starts_with(start))
            || verb.is_empty()
    })
}
