//! Which files the loader has put together to make this process.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The shared objects of this process, by the paths under which the loader found them; the loader itself is among them.
/// None in a program that is linked statically.
pub(crate) fn shared_objects() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    // SAFETY: the callback is called before this returns, with the pointer that is given here.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut found).cast()) };
    found
}

unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader gives a structure that lives through this call, whose name is NUL-terminated or null; `found` is
    // what `shared_objects` gave, which nobody else uses meanwhile.
    let (name, found) = unsafe {
        let name = (*info).dlpi_name;
        if name.is_null() {
            return 0;
        }
        (CStr::from_ptr(name), &mut *found.cast::<Vec<PathBuf>>())
    };
    // The program itself has no name, the kernel's own part none that is a path.
    if name.to_bytes().starts_with(b"/") {
        found.push(PathBuf::from(OsStr::from_bytes(name.to_bytes())));
    }
    0
}
