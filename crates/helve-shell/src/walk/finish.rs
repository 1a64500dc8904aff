//! The end of a walk: the runs in the order of their texts, and nothing twice.

use std::collections::HashMap;

use super::Walker;
use crate::Span;
use crate::analysis::{Analysis, Input, Run};

impl Walker<'_> {
    /// Puts the runs in the order of their texts and leaves out what was found twice.
    pub(super) fn finish(mut self) -> Analysis {
        if !self.repeated && self.runs.is_sorted_by_key(|run| run.span.start) {
            return Analysis {
                runs: self.runs,
                effects: self.effects,
                possible: self.possible,
                opaque: self.opaque,
            };
        }
        let mut order: Vec<usize> = (0..self.runs.len()).collect();
        order.sort_by_key(|index| self.runs[*index].span.start);
        let mut moved = vec![0; self.runs.len()];
        let mut runs: Vec<Run> = Vec::with_capacity(self.runs.len());
        let mut taken: Vec<Option<Run>> = self.runs.drain(..).map(Some).collect();
        for index in order {
            let Some(run) = taken[index].take() else { continue };
            let twin = if self.repeated {
                let near = runs.iter().enumerate().rev().take(16);
                near.filter(|(_, other)| is_twin(other, &run)).map(|(place, _)| place).next()
            } else {
                None
            };
            moved[index] = twin.unwrap_or(runs.len());
            if twin.is_none() {
                runs.push(run);
            }
        }
        for run in &mut runs {
            if let Input::Pipe(Some(index)) = &mut run.input {
                *index = moved[*index];
            }
        }
        let possible = self.possible.iter_mut().map(|possible| &mut possible.effect);
        for effect in self.effects.iter_mut().chain(possible) {
            effect.run = effect.run.map(|index| moved[index]);
        }
        if self.repeated {
            self.effects = once(self.effects, |effect| effect.span);
            self.possible = once(self.possible, |possible| possible.effect.span);
        }
        Analysis { runs, effects: self.effects, possible: self.possible, opaque: self.opaque }
    }
}

/// What was found, without what was found twice at the same place.
fn once<T: PartialEq>(found: Vec<T>, span: impl Fn(&T) -> Span) -> Vec<T> {
    let mut seen: HashMap<Span, Vec<usize>> = HashMap::new();
    let mut kept: Vec<T> = Vec::with_capacity(found.len());
    for one in found {
        let near = seen.entry(span(&one)).or_default();
        if !near.iter().rev().take(32).any(|index| kept[*index] == one) {
            near.push(kept.len());
            kept.push(one);
        }
    }
    kept
}

/// Whether two runs are the same command, found twice.
fn is_twin(one: &Run, other: &Run) -> bool {
    one.span == other.span
        && one.program == other.program
        && one.kind == other.kind
        && one.via == other.via
        && one.argv == other.argv
        && one.environment == other.environment
        && one.departures == other.departures
        && one.more == other.more
        && one.directory == other.directory
        && std::mem::discriminant(&one.input) == std::mem::discriminant(&other.input)
}
