//! Runs a command inside a view of the world: bwrap, wrapper and bare backends, whole-tree kill
