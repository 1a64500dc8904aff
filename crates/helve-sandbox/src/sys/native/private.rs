//! What each member mounts for itself: `/proc`, its private directories, its terminals.
//!
//! All private directories lie in one file system in memory, so that one bound holds for all of them.

use std::ffi::CStr;

use libc::{c_int, c_ulong};

use super::descriptors::{close, open_path};
use super::failure::{At, Failure};
use super::kit::Given;
use super::raw::syscall;
use super::template::MOST_NESTED;
use super::world::World;
use crate::native::wire::Step;

/// How terminals are mounted.
pub(super) const TERMINALS: &CStr = c"newinstance,ptmxmode=0666,mode=620";

/// Mounts this member's own `/proc` and terminals.
pub(super) fn mount_system(kit: Option<Given>) -> Result<(), Failure> {
    let flags = libc::MS_NOSUID | libc::MS_NOEXEC;
    mount(c"proc", c"/proc", c"proc", flags | libc::MS_NODEV, c"").at(Step::Proc)?;
    let place = c"/dev/pts";
    let Some(kit) = kit else {
        return mount(c"devpts", place, c"devpts", flags, TERMINALS).at(Step::Private).map(drop);
    };
    let attached = attach(kit.terminals, place).at(Step::Private)?;
    if attached != kit.terminals {
        close(attached);
    }
    Ok(())
}

/// Mounts this member's private directories. A descriptor on their file system.
pub(super) fn mount_private(world: &World, kit: Option<Given>) -> Result<c_int, Failure> {
    let template = &world.template;
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    let Some(first) = template.private.first() else { return Ok(-1) };
    // What lies below a private directory is taken up before that covers it, and put back on top.
    let mut nested = [-1; MOST_NESTED];
    for ((place, _, _), fd) in template.nested.iter().zip(&mut nested) {
        *fd = open_tree(libc::AT_FDCWD, place, libc::AT_RECURSIVE).at(Step::Private)?;
    }
    let root = if let Some(kit) = kit {
        attach(kit.private, &first.place).at(Step::Private)?
    } else {
        mount(c"tmpfs", &first.place, c"tmpfs", flags, &world.private_options).at(Step::Private)?;
        let root = open_path(&first.place).at(Step::Private)?;
        fill(world, root)?;
        root
    };
    for private in template.private.iter().filter(|_| template.private.len() > 1) {
        let tree = open_tree(root, &private.name, 0).at(Step::Private)?;
        move_mount(tree, &private.place).at(Step::Private)?;
        close(tree);
    }
    for ((place, _, _), fd) in template.nested.iter().zip(nested) {
        move_mount(fd, place).at(Step::Private)?;
        close(fd);
    }
    Ok(root)
}

/// Makes what a private file system has to hold.
pub(super) fn fill(world: &World, root: c_int) -> Result<(), Failure> {
    let template = &world.template;
    for private in template.private.iter().filter(|_| template.private.len() > 1) {
        let mode = if private.open { 0o1777 } else { 0o700 };
        make_directory(root, &private.name, mode).at(Step::Private)?;
    }
    for inner in &template.inner {
        make_directory(root, inner, 0o700).at(Step::Private)?;
    }
    for (_, inside, is_directory) in &template.nested {
        let made = if *is_directory { make_directory(root, inside, 0o755) } else { make_file(root, inside) };
        made.at(Step::Private)?;
    }
    Ok(())
}

fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: c_ulong, options: &CStr) -> Result<usize, c_int> {
    // SAFETY: all texts end with NUL and live through the call.
    unsafe {
        syscall!(libc::SYS_mount, source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr())
    }
}

fn open_tree(at: c_int, path: &CStr, flags: c_int) -> Result<c_int, c_int> {
    const CLONE: c_int = 1;
    // SAFETY: the path ends with NUL and lives through the call.
    let fd = unsafe { syscall!(libc::SYS_open_tree, at, path.as_ptr(), CLONE | libc::O_CLOEXEC | flags) };
    fd.map(|fd| fd as c_int)
}

/// Attaches what a kit has, as a mount of this moment: the kernel lists mounts by their age, and all members are to see one list.
/// The descriptor on it, which is the tree itself before Linux 6.15: a mount that is attached nowhere cannot be copied there.
fn attach(tree: c_int, target: &CStr) -> Result<c_int, c_int> {
    let copy = open_tree(tree, c"", libc::AT_EMPTY_PATH).unwrap_or(tree);
    move_mount(copy, target)?;
    Ok(copy)
}

fn move_mount(tree: c_int, target: &CStr) -> Result<usize, c_int> {
    const FROM_EMPTY_PATH: c_int = 4;
    // SAFETY: both texts end with NUL and live through the call.
    unsafe {
        let (empty, at) = (c"".as_ptr(), libc::AT_FDCWD);
        syscall!(libc::SYS_move_mount, tree, empty, at, target.as_ptr(), FROM_EMPTY_PATH)
    }
}

fn make_directory(at: c_int, path: &CStr, mode: c_int) -> Result<(), c_int> {
    // SAFETY: the path ends with NUL and lives through the call.
    match unsafe { syscall!(libc::SYS_mkdirat, at, path.as_ptr(), mode) } {
        Ok(_) | Err(libc::EEXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn make_file(at: c_int, path: &CStr) -> Result<(), c_int> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
    // SAFETY: the path ends with NUL and lives through the call.
    let fd = unsafe { syscall!(libc::SYS_openat, at, path.as_ptr(), flags, 0o644) }?;
    close(fd as c_int);
    Ok(())
}
