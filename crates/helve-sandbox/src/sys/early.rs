//! Looks, before `main`, whether this process was started to be the sandbox's helper.
//!
//! So a program that embeds the sandbox, a test program included, can be started again as the helper without a word in
//! its own `main`. Only where the C library gives functions that run before `main` the process's arguments, as glibc does;
//! elsewhere the program calls [`crate::run_helper_if_asked`] itself.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
// SAFETY: the section holds pointers to functions that the loader calls once, before `main` and any thread. The function
// reads the arguments, which glibc's own start has set by then, and otherwise returns.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn() = look;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
extern "C" fn look() {
    crate::run_helper_if_asked();
}
