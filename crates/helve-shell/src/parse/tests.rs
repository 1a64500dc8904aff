//! Faults and spans of single texts; the tables of cases live beside the crate.
