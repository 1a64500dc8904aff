//! The closed loop: a model decides, Helve acts, the model sees what came of it and goes on.
//!
//! | module | what it holds |
//! |---|---|
//! | [`talk`] | what is said between the owner, the model and the tools |
//! | [`model`] | one model behind one trait, whoever serves it |
//! | [`run`] | the loop |
//! | [`prompt`] | what a model is told of itself, and which tools it is shown |
//! | `guard` | sees when a run goes in circles |
//! | `window`, `compact` | how long the talk is, and how it becomes shorter |
//! | [`control`] | how a running loop is told something from outside |
//! | [`models`] | the models that can be asked, and who serves them |
//! | [`events`] | what a run tells while it goes on, and how it ends |
//! | [`story`] | what a session's journal keeps of the talk, beside the calls |
//! | [`record`] | the talk told again from a journal, and the calls that it holds |
//! | [`replay`] | where the results of a session's calls differ when they are made again |
//! | [`what_if`] | what another policy would have said of a session's calls |
//! | [`export`] | a session as a folder for others, without secrets |
//!
//! Every call that a model wants goes through [`helve::Runtime`] and nothing else: this crate has no way to the world of its
//! own but the connection to the model.

mod compact;
pub mod control;
pub mod events;
pub mod export;
mod guard;
pub mod model;
pub mod models;
pub mod prompt;
pub mod record;
pub mod replay;
pub mod run;
pub mod story;
pub mod talk;
pub mod what_if;
mod window;
