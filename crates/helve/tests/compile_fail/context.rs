// errors: E0425, E0433, cannot construct
//! A context cannot be made outside the runtime.
fn main() {
    let _ctx = helve::assemble;
    let _ctx = helve::context::assemble;
    let _ctx = helve::Context {};
}
