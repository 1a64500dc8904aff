//! The contract of Helve: tools, specs, output, errors, access, limits and the lane traits
