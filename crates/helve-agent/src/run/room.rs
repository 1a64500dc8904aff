//! Makes the talk shorter before it does not fit any more, and where it did not.

use super::asking::Broken;
use super::limits::Run;
use super::{Agent, Over};
use crate::compact::{ASK_FOR_SUMMARY, cut, opening, plain_summary, shrink, transcript};
use crate::events::Event;
use crate::model::{ModelErrorKind, Request};
use crate::story::{self, Chapter};
use crate::talk::{Message, UserMessage};

/// The latest answers whose results stay as they are while that is possible.
const SPARED: usize = 2;
/// How much of its room the talk has after it was made shorter, by how often it was already too long for one request.
/// Well below all of it, so that the provider's cache holds for a while.
const SHARES: [f64; 4] = [0.6, 0.4, 0.25, 0.12];
/// How much of what the talk may have stays as it is where its beginning becomes a summary.
const TAIL: f64 = 0.5;
/// A beginning that weighs less, as a part of what the talk may have, is not worth a summary.
const WORTH: f64 = 0.5;
/// So often is a summary asked for, each time from half as much.
const SUMMARIES: u32 = 3;

impl Agent {
    /// Makes the talk shorter if the next request would come near the end of the window.
    pub(super) async fn make_room(&mut self, run: &mut Run<'_>) -> Result<(), Over> {
        if self.weight <= self.room() {
            return Ok(());
        }
        self.shorten(0, run).await.map(|_| ())
    }

    /// What the messages may weigh.
    fn room(&self) -> u64 {
        self.window.room(self.request_weight() - self.weight)
    }

    /// The provider did not take the talk. Whether it could be made shorter.
    pub(super) async fn make_shorter(&mut self, tries: u32, run: &mut Run<'_>) -> Result<bool, Over> {
        self.window.overflowed(self.request_weight());
        self.shorten(tries as usize, run).await
    }

    async fn shorten(&mut self, tries: usize, run: &mut Run<'_>) -> Result<bool, Over> {
        let before = self.weight;
        let share = SHARES[tries.min(SHARES.len() - 1)];
        let room = self.room();
        let mut target = (room as f64 * share) as u64;
        if tries > 0 {
            // The estimate was wrong; what is certain is that it has to become less.
            target = target.min((before as f64 * share) as u64);
        }
        let mut messages = self.messages.clone();
        let weight = |messages: &[Message]| messages.iter().map(crate::window::weight).sum::<u64>();
        let enough = if tries == 0 { room } else { target };
        let mut changed = false;
        for spared in (1..=SPARED).rev() {
            if spared == SPARED || weight(&messages) > enough {
                changed |= shrink(&mut messages, spared, target);
            }
        }
        if weight(&messages) > enough
            && let Some(place) = cut(&messages, (target as f64 * TAIL) as u64)
            && weight(&messages[..place]) as f64 > target as f64 * WORTH
        {
            let summary = self.summary(&messages[..place], run).await?;
            let opening = opening(self.owner.iter().map(String::as_str), &summary, target);
            messages.splice(..place, [Message::User(opening)]);
            changed = true;
        }
        if weight(&messages) > enough {
            changed |= shrink(&mut messages, 0, target);
        }
        if !changed || weight(&messages) >= before {
            return Ok(false);
        }
        let chapter = Chapter::Shortened { round: self.rounds, messages };
        self.record(std::slice::from_ref(&chapter))?;
        if let Chapter::Shortened { messages, .. } = chapter {
            self.set_messages(messages);
        }
        run.tell(Event::Shortened { tokens: self.tokens() });
        Ok(true)
    }

    /// What the model wants to know of the beginning of its talk; a plain list where it does not say, and where it may not be
    /// asked any more.
    async fn summary(&mut self, beginning: &[Message], run: &mut Run<'_>) -> Result<String, Over> {
        let mut bytes = usize::try_from(self.window.bytes(self.window.budget())).unwrap_or(usize::MAX);
        for _ in 0..SUMMARIES {
            if self.bound(run).is_some() {
                break;
            }
            let text = transcript(beginning, bytes);
            let asks = [Message::User(UserMessage { text, from_loop: true, ..UserMessage::default() })];
            let request = Request {
                system: ASK_FOR_SUMMARY,
                tools: &[],
                messages: &asks,
                may_call: false,
                max_output: self.options.max_output,
                temperature: self.options.temperature,
            };
            self.rounds += 1;
            let round = self.rounds;
            run.tell(Event::Round { round });
            self.record(&[Chapter::Asked { round, request: story::digest(&request) }])?;
            let weight = ASK_FOR_SUMMARY.len() as u64 + asks.iter().map(crate::window::weight).sum::<u64>();
            let (answer, lost) = self.answer_to(request, weight, run, false).await;
            self.usage += lost;
            match answer {
                Ok(mut answer) => {
                    // It has no tools: what it calls all the same is nothing.
                    answer.message.calls.clear();
                    let (answer, _) = self.fit(answer);
                    self.count(&answer, weight, run);
                    let text = answer.message.text.trim().to_owned();
                    self.record(&[Chapter::Summed { round, answer: Box::new(answer) }])?;
                    if !text.is_empty() {
                        return Ok(text);
                    }
                }
                Err(Broken::Cut { over, .. }) => return Err(over),
                Err(Broken::Model(error)) => {
                    let too_long = error.kind == ModelErrorKind::TooLong;
                    self.record(&[Chapter::Failed { round, error }])?;
                    if !too_long {
                        break;
                    }
                }
            }
            bytes /= 2;
        }
        Ok(plain_summary(beginning))
    }
}
