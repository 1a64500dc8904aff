//! Which Linux this is.

/// The first two numbers of its release.
pub(crate) fn kernel() -> (u32, u32) {
    let kernel = rustix::system::uname();
    let release = kernel.release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
