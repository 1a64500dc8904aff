//! The grammar of options that programs share.
