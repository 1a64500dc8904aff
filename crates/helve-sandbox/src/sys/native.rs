//! The helper process of the native sandbox and its members: all of its unsafe code.
//!
//! | module | what it is |
//! |---|---|
//! | `zygote`, `control` | the helper's life, its orders, and how it hears them |
//! | `origin` | what it leaves and keeps of the program that started it |
//! | `enter`, `holder` | the way into namespaces and mounts, and who makes namespaces in advance |
//! | `identity` | who commands are outside |
//! | `template`, `builder`, `guards` | the tree of mounts, the root that it is built in, and guards on paths of the workspace |
//! | `layer` | what takes every change of the workspace in its place |
//! | `world`, `slot` | what members read, and the memory that is each member's own |
//! | `member`, `command` | a member's init, and its command until the program is executed |
//! | `private`, `kit` | what a member mounts for itself, and the same made beforehand |
//! | `talk`, `descriptors`, `failure` | what their processes say, keep open, and could not do |
//! | `warm`, `mould` | a shell that stands still before it reads its text, and one that is loaded once and copied |
//! | `trace` | how a process is followed |
//! | `watch` | what an init looks at while its command runs |
//! | `witness` | what an init sees being refused to its command |

mod builder;
mod command;
mod control;
mod descriptors;
mod enter;
mod failure;
mod guards;
mod holder;
mod identity;
mod kit;
mod layer;
mod member;
#[cfg(target_arch = "x86_64")]
mod mould;
#[cfg(not(target_arch = "x86_64"))]
#[path = "native/mould/nowhere.rs"]
mod mould;
mod origin;
mod private;
mod processors;
mod slot;
mod talk;
mod template;
mod trace;
mod warm;
pub(super) mod watch;
mod witness;
mod world;
mod zygote;

use super::raw;

pub(crate) use identity::{for_root, is_mapped};
pub(crate) use zygote::{fork_zygote, zygote_main};
