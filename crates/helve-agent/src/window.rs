//! How much of a model's window the talk takes, about.
//!
//! Tokens are counted by the provider alone, and only afterwards. Until then bytes are counted and turned into tokens by a
//! rate that starts at a usual one and is corrected by what the provider says after each answer.

use std::sync::Arc;

use helve::ToolSpec;
use helve::json_text::length;

use crate::model::Card;
use crate::talk::{Message, Usage};

/// Bytes that are a token, before a provider has said anything.
const BYTES_A_TOKEN: f64 = 3.5;
/// What a picture costs, in bytes of text that would cost as much.
const PICTURE: u64 = 5_600;
/// What every message, call and result costs beside its text.
const FRAME: u64 = 24;
/// A talk has at least so many tokens, whatever is said of the model.
const LEAST: u64 = 2_000;
/// The messages may always weigh so many bytes.
const LEAST_ROOM: u64 = 2_000;
/// How far a provider's count may correct the rate.
const RATES: std::ops::RangeInclusive<f64> = 0.25..=8.0;

/// What a model's window holds, and at which rate it fills.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Tokens of request and answer together.
    all: u64,
    /// Tokens of the longest answer.
    answer: u64,
    /// Tokens for each that is expected.
    rate: f64,
}

impl Window {
    pub(crate) fn new(card: &Card, max_output: Option<u64>) -> Window {
        let all = card.context_window.max(LEAST);
        let answer = max_output.unwrap_or(card.max_output).min(all / 2);
        Window { all, answer, rate: 1.0 }
    }

    /// So many tokens may a request have before the talk is made shorter: three quarters of what fits.
    pub(crate) fn budget(&self) -> u64 {
        (self.all - self.answer) / 4 * 3
    }

    /// So many bytes may the messages weigh where the rest of the request weighs `fixed`. Where tools and system prompt alone
    /// are near the budget the talk still has half of what is left, because it cannot be without any.
    pub(crate) fn room(&self, fixed: u64) -> u64 {
        let left = |tokens: u64| self.bytes(tokens).saturating_sub(fixed);
        left(self.budget()).max(left(self.all - self.answer) / 2).max(LEAST_ROOM)
    }

    /// About how many tokens these bytes are.
    pub(crate) fn tokens(&self, bytes: u64) -> u64 {
        (bytes as f64 / BYTES_A_TOKEN * self.rate).ceil() as u64
    }

    /// About how many bytes these tokens are.
    pub(crate) fn bytes(&self, tokens: u64) -> u64 {
        (tokens as f64 * BYTES_A_TOKEN / self.rate) as u64
    }

    /// The provider counted a request of so many bytes.
    pub(crate) fn counted(&mut self, bytes: u64, usage: &Usage) {
        let counted = usage.input.saturating_add(usage.cached);
        if counted > 0 && bytes > 0 {
            let rate = counted as f64 * BYTES_A_TOKEN / bytes as f64;
            self.rate = rate.clamp(*RATES.start(), *RATES.end());
        }
    }

    /// The provider did not take a request of so many bytes, because it is too long.
    pub(crate) fn overflowed(&mut self, bytes: u64) {
        let least = self.all as f64 * BYTES_A_TOKEN / bytes.max(1) as f64;
        self.rate = least.max(self.rate * 1.2).clamp(*RATES.start(), *RATES.end());
    }
}

/// What a message costs, in bytes.
pub(crate) fn weight(message: &Message) -> u64 {
    let sum = |parts: &[usize]| parts.iter().map(|part| *part as u64).sum::<u64>() + FRAME;
    match message {
        Message::User(said) => sum(&[said.text.len()]) + PICTURE * said.images.len() as u64,
        Message::Model(said) => {
            let kept = said.kept.as_ref().map_or(0, |kept| length(&kept.value));
            let calls = said.calls.iter().map(|call| sum(&[call.id.len(), call.name.len(), call.args.len()]));
            sum(&[said.text.len(), kept]) + calls.sum::<u64>()
        }
        Message::Results { results } => {
            let result = |result: &crate::talk::ToolAnswer| {
                sum(&[result.id.len(), result.name.len(), result.text.len()])
                    + PICTURE * result.images.len() as u64
            };
            results.iter().map(result).sum()
        }
    }
}

/// What the tools cost, in bytes.
pub(crate) fn weight_of_tools(tools: &[Arc<ToolSpec>]) -> u64 {
    let tool = |tool: &Arc<ToolSpec>| {
        (tool.name.len() + tool.description.len() + length(&tool.parameters)) as u64 + FRAME
    };
    tools.iter().map(tool).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(context_window: u64, max_output: u64) -> Card {
        Card { provider: "p".into(), name: "n".into(), context_window, max_output, price: None }
    }

    #[test]
    fn an_answer_has_its_room() {
        assert_eq!(Window::new(&card(200_000, 8_000), None).budget(), 144_000);
        assert_eq!(Window::new(&card(200_000, 8_000), Some(100_000)).budget(), 75_000);
        assert_eq!(Window::new(&card(0, u64::MAX), None).budget(), 750);
        assert!(Window::new(&card(u64::MAX, u64::MAX), Some(u64::MAX)).budget() > 1 << 60);
    }

    #[test]
    fn a_talk_has_room_beside_many_tools() {
        let window = Window::new(&card(8_000, 2_000), None);
        assert_eq!(window.budget(), 4_500);
        assert_eq!(window.room(1_750), 14_000, "what the budget leaves");
        assert_eq!(window.room(17_500), 2_000, "half of what the window leaves would be less");
        assert_eq!(window.room(14_000), 3_500, "half of what the window leaves");
        assert_eq!(window.room(u64::MAX), 2_000);
    }

    #[test]
    fn the_provider_is_believed_within_reason() {
        let mut window = Window::new(&card(100_000, 1_000), None);
        assert_eq!(window.tokens(3_500), 1_000);
        window.counted(3_500, &Usage { input: 500, cached: 1_500, output: 9, ..Usage::default() });
        assert_eq!(window.tokens(3_500), 2_000);
        assert_eq!(window.bytes(2_000), 3_500);
        window.counted(3_500, &Usage::default());
        assert_eq!(window.tokens(3_500), 2_000, "a provider that says nothing changes nothing");
        window.counted(3_500, &Usage { input: u64::MAX, ..Usage::default() });
        assert_eq!(window.tokens(3_500), 8_000);
        let mut window = Window::new(&card(100_000, 1_000), None);
        window.overflowed(175_000);
        assert_eq!(window.tokens(175_000), 100_000, "what did not fit has at least so many");
    }
}
