//! The binary as its users meet it: every command as a process, in a world of its own.

#[cfg(test)]
mod world;

#[cfg(test)]
mod absent;
#[cfg(test)]
mod batch;
#[cfg(test)]
mod call;
#[cfg(test)]
mod config;
#[cfg(test)]
mod dialect;
#[cfg(test)]
mod help;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod said;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod trust;
#[cfg(test)]
mod unnamed;
#[cfg(test)]
mod unread;
#[cfg(test)]
mod why;
