//! What Landlock can hold on this kernel, and which rights a place gets.
//!
//! In: the version of Landlock that the kernel has. Out: what a ruleset handles, and rights as numbers. What is handled
//! and granted nowhere is forbidden. Nobody is ever granted to make a device; the one that is none,
//! number 0, some kernels count among regular files, so the filter refuses it too.

use helve_core::Network;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const MAKE_SOCK: u64 = 1 << 9;
const MAKE_FIFO: u64 = 1 << 10;
const MAKE_BLOCK: u64 = 1 << 11;
const MAKE_SYM: u64 = 1 << 12;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;

/// Binding and connecting a TCP socket.
const TCP: u64 = 0b11;

/// Abstract Unix sockets and signals.
const SCOPES: u64 = 0b11;

/// What may be granted for something that is not a directory.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

/// The version of Landlock that a kernel has, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32);

impl Version {
    /// The first that keeps a command from emptying files that it may not write.
    pub(crate) const TRUNCATES: Version = Version(3);
    /// The first that knows TCP.
    pub(crate) const NETWORK: Version = Version(4);
    /// The first that keeps signals and abstract sockets inside.
    pub(crate) const SCOPES: Version = Version(6);

    /// Every right to files that this version knows.
    fn files(self) -> u64 {
        let read = EXECUTE | READ_FILE | READ_DIR;
        let change = WRITE_FILE | REMOVE_DIR | REMOVE_FILE;
        let make = MAKE_CHAR | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_BLOCK | MAKE_SYM;
        let since = |version: u32, right: u64| if self.0 >= version { right } else { 0 };
        read | change | make | since(2, REFER) | since(3, TRUNCATE) | since(5, IOCTL_DEV)
    }
}

/// What a ruleset forbids unless it is granted. As the kernel reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Handled {
    files: u64,
    network: u64,
    scopes: u64,
}

impl Handled {
    /// Everything that this version can hold. TCP is left alone where the network is the host's: ports are not granted
    /// one by one.
    pub(crate) fn everything(version: Version, network: Network) -> Handled {
        let tcp = network == Network::Off && version >= Version::NETWORK;
        Handled {
            files: version.files(),
            network: if tcp { TCP } else { 0 },
            scopes: if version >= Version::SCOPES { SCOPES } else { 0 },
        }
    }

    /// What is held with it behind mounts that show nothing but the view: everything except reading a file and emptying it.
    /// Whatever has a name there may be read, and what may not be changed is mounted read-only, as long as no file of the
    /// outside is open (every descriptor has a name in `/proc`). The kernel asks for these
    /// two whenever a file is opened, along its whole path: a twentieth of the time of a command that opens many.
    pub(crate) fn behind_mounts(version: Version, network: Network) -> Handled {
        let everything = Handled::everything(version, network);
        Handled { files: everything.files & !(READ_FILE | TRUNCATE), ..everything }
    }

    /// The rights to grant for a place, as far as this ruleset handles them.
    pub(crate) fn rights(&self, access: Access, is_directory: bool) -> u64 {
        let kind = if is_directory { u64::MAX } else { OF_FILES };
        access.rights() & self.files & kind
    }
}

/// What a command may do at a place and below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read, and list directories.
    Read,
    /// The same, and execute.
    Use,
    /// The same, and change, make and remove.
    Change,
    /// Read, write and order about; for devices.
    Device,
}

impl Access {
    fn rights(self) -> u64 {
        const READ: u64 = READ_FILE | READ_DIR;
        const MAKE: u64 = MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM;
        match self {
            Access::Read => READ,
            Access::Use => READ | EXECUTE,
            Access::Change => {
                READ | EXECUTE | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE | REFER
            }
            Access::Device => READ | WRITE_FILE | TRUNCATE | IOCTL_DEV,
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const DEVICES: u64 = MAKE_CHAR | MAKE_BLOCK;

    #[test]
    fn each_version_handles_what_it_knows() {
        let handled = |version, network| Handled::everything(Version(version), network);
        let files = |version| handled(version, Network::Off).files;
        assert_eq!([1, 2, 3, 4, 5, 9].map(files), [0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff, 0xffff]);
        let others =
            |version| (handled(version, Network::Off).network, handled(version, Network::Off).scopes);
        assert_eq!([3, 4, 5, 6].map(others), [(0, 0), (0b11, 0), (0b11, 0), (0b11, 0b11)]);
        assert_eq!(handled(7, Network::Host).network, 0);
    }

    #[test]
    fn rights_are_handled_fit_the_kind_and_never_make_a_device() {
        for version in 1..=8 {
            let handled = Handled::everything(Version(version), Network::Off);
            for access in [Access::Read, Access::Use, Access::Change, Access::Device] {
                let (directory, file) = (handled.rights(access, true), handled.rights(access, false));
                assert_eq!((directory | file) & !handled.files, 0, "{version} {access:?}");
                assert_eq!(directory & DEVICES, 0, "{version} {access:?}");
                assert_eq!(file & !OF_FILES, 0, "{version} {access:?}");
                assert_ne!(file, 0, "{version} {access:?}");
            }
        }
        let newest = Handled::everything(Version(7), Network::Off);
        assert_eq!(newest.rights(Access::Change, true) | DEVICES | IOCTL_DEV, newest.files);
        assert_eq!(newest.rights(Access::Use, true), EXECUTE | READ_FILE | READ_DIR);
        assert_eq!(newest.rights(Access::Read, true), READ_FILE | READ_DIR);
    }

    #[test]
    fn behind_mounts_a_file_is_opened_for_reading_without_a_question() {
        for version in 1..=8 {
            let [all, behind] = [Handled::everything, Handled::behind_mounts]
                .map(|handled| handled(Version(version), Network::Off));
            assert_eq!(all.files & !behind.files, all.files & (READ_FILE | TRUNCATE), "{version}");
            assert_eq!((all.network, all.scopes), (behind.network, behind.scopes), "{version}");
            assert_eq!(behind.rights(Access::Use, true), EXECUTE | READ_DIR, "{version}");
        }
    }
}
