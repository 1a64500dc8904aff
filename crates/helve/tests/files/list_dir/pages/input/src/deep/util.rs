// alpha helper
fn gamma() {}
