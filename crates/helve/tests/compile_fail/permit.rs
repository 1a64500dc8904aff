//! Permit, authorize and execute cannot be named, and the runtime gives no tool out.
use helve::Runtime;

fn run(runtime: Runtime) {
    let _permit: helve_runtime::pipeline::authorize::Permit;
    runtime.pipeline;
    runtime.execute();
    runtime.tool("exec");
}

fn main() {
    let _ = run;
}
