// errors: E0599, E0616
//! The runtime gives specs out, never a tool, and its pipeline is its own.
fn run(runtime: helve::Runtime) {
    let _ = runtime.pipeline;
    let _ = runtime.execute();
    let _ = runtime.tool("exec");
}

fn main() {
    let _ = run;
}
