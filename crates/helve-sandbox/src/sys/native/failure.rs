//! What could not be done: a step and the `errno` of the call that failed there.

use libc::c_int;

use crate::native::wire::Step;

/// What could not be done, and the `errno`.
pub(super) type Failure = (Step, c_int);

/// Names the step at which a system call failed.
pub(super) trait At<T> {
    /// With the step.
    fn at(self, step: Step) -> Result<T, Failure>;
}

impl<T> At<T> for Result<T, c_int> {
    fn at(self, step: Step) -> Result<T, Failure> {
        self.map_err(|errno| (step, errno))
    }
}

impl<T> At<T> for Result<T, rustix::io::Errno> {
    fn at(self, step: Step) -> Result<T, Failure> {
        self.map_err(|errno| (step, errno.raw_os_error()))
    }
}
