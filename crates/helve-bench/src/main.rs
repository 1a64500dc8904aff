//! Measures Helve.
fn main() {}
