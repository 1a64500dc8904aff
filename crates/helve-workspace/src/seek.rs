//! Walking and searching below an open directory, in parallel, without following a link or resolving a path twice.
