//! What is known of a member: whether it can take a request, what is missing to know how its call ended, and how it ended.

use helve_core::OutputSink;

use super::super::wire::Report;

/// How a call was seen to end.
pub(in crate::native) enum Finish {
    /// The member said how.
    Reported(Report),
    /// Everything in the member is gone, and it said nothing.
    Lost,
    /// The request never reached a living member, so it may be made again; its sink comes back.
    NotDelivered(Option<Box<dyn OutputSink>>),
    /// The member could not be made: a step, an `errno`, and the sink.
    Refused(u32, i32, Option<Box<dyn OutputSink>>),
    /// The sink failed, and the command was ended.
    SinkFailed,
}

/// Whether a member can take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::native) enum Readiness {
    /// It waits for one.
    Ready,
    /// It is still being made; a request waits with it.
    Preparing,
    /// It has ended.
    Dead,
}

/// What is needed to know how a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::native) enum Missing {
    /// Nothing: it can be answered.
    Nothing,
    /// It still runs.
    End,
    /// What the zygote says of it.
    Word,
    /// The end of its process.
    Death,
    /// The end of its zygote's: nothing else can show its own.
    ZygotesDeath,
}
