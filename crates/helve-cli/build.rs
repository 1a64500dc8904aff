//! Has the linker settle every address, so that the program starts sooner.
//!
//! A program that can be loaded anywhere has tens of thousands of pointers put right at each start, on hundreds of pages that
//! are copied for it: an eighth of the time of `helve call exec`. So it is linked for one place. Its stack, its heap and its
//! libraries are still put anywhere; `SECURITY.md` weighs that. With `HELVE_PIE=1` it can be loaded anywhere too, and then the
//! pointers are packed where the C library can unpack them: glibc from 2.36 on, which the program then needs.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=HELVE_PIE");
    let for_glibc = env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu")
        && env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if for_glibc && env::var_os("HELVE_PIE").is_none_or(|value| value == "0") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        return;
    }
    let for_this_machine = env::var("HOST") == env::var("TARGET");
    if for_this_machine && glibc().is_some_and(|version| version >= (2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine's C library; none if it is another one.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
