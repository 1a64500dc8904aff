// errors: E0603
//! A permit cannot even be named.
fn main() {
    let _permit: Option<helve_runtime::pipeline::authorize::Permit> = None;
}
