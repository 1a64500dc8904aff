//! Helve as a library: one place to import from
