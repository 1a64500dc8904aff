//! The last words of a run that did not end by itself: where it stands, never a cut.

use super::asking::Said;
use super::calls::not_run;
use super::limits::Run;
use super::{Agent, Over};
use crate::events::{Bound, Ending};

/// What a call is told that comes when none may come any more.
const NO_CALLS: &str = "Error: No tool can be called any more: the run ends here.";

impl Agent {
    /// Ends a run at a bound.
    pub(super) async fn at_bound(&mut self, bound: Bound, run: &mut Run<'_>) -> Over {
        // One more request would cost what may not be spent.
        if bound == Bound::Cost {
            return self.out_of_words(bound, run);
        }
        let why = run.bound_in_words(bound);
        let (Ok(over) | Err(over)) = self.last_words(Ending::Bound { bound }, &why, run).await;
        over
    }

    /// Asks the model where it stands, without tools, and ends with what it says.
    pub(super) async fn last_words(
        &mut self,
        ending: Ending,
        why: &str,
        run: &mut Run<'_>,
    ) -> Result<Over, Over> {
        let note = format!(
            "The run ends here, because {why}. No tool can be called any more. Say in a few sentences what is done, what is \
             not, and what should be done next."
        );
        self.note(note, run)?;
        let own = self.own_words(why, run);
        run.asks_for_last_words();
        match self.ask(run, false).await {
            Ok(Said { text, calls, .. }) => {
                if !calls.is_empty() {
                    self.answer_without_running(calls.iter().map(|call| not_run(call, NO_CALLS)).collect())?;
                }
                Ok(Over::new(ending, if text.is_empty() { own } else { text }))
            }
            // Why it ends is known already; that the model is silent does not change it.
            Err(Over { ending: Ending::Model { .. }, .. }) => Ok(Over::new(ending, own)),
            Err(over) => Err(over),
        }
    }

    /// The end at a bound without a word of the model.
    pub(super) fn out_of_words(&self, bound: Bound, run: &Run<'_>) -> Over {
        Over::new(Ending::Bound { bound }, self.own_words(&run.bound_in_words(bound), run))
    }

    fn own_words(&self, why: &str, run: &Run<'_>) -> String {
        format!(
            "The run was ended after {} rounds and {} seconds, because {why}. The work may not be done; say \"go on\" to go on \
             where it stopped.",
            run.rounds(self.rounds),
            run.elapsed().as_secs()
        )
    }
}
