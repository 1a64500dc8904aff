pub fn alpha() {}
pub fn beta() {
    alpha();
}
