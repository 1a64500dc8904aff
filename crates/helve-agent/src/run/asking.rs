//! Asks the model, and again where the talk was too long for it.

use std::time::Duration;

use helve::Cancel;

use super::limits::Run;
use super::pieces::Pieces;
use super::{Agent, Over, cancelled};
use crate::events::{Bound, Ending, Event};
use crate::model::{Answer, ModelError, ModelErrorKind, Piece, Request};
use crate::story::{Chapter, Digest};
use crate::talk::{Message, Stop, ToolUse, Usage};

/// So often is a talk made shorter for one request.
const SHORTER: u32 = 3;
/// How long a model has to end that was told to.
const GRACE: Duration = Duration::from_secs(2);

/// What the model said, as the loop goes on with it.
pub(super) struct Said {
    pub(super) text: String,
    /// Its calls, with the arguments as the model wrote them.
    pub(super) calls: Vec<ToolUse>,
    pub(super) stop: Stop,
}

impl Agent {
    /// Asks the model and puts its answer into the talk.
    pub(super) async fn ask(&mut self, run: &mut Run<'_>, may_call: bool) -> Result<Said, Over> {
        self.rounds += 1;
        let round = self.rounds;
        run.tell(Event::Round { round });
        let mut shorter = 0;
        loop {
            let request = self.request_hash(may_call);
            self.record(&[Chapter::Asked { round, request }])?;
            match self.answer(run, may_call).await {
                Ok(answer) => return self.take(round, answer, run),
                Err(Broken::Over(over)) => return Err(over),
                Err(Broken::Model(error)) => {
                    self.record(&[Chapter::Failed { round, error: error.clone() }])?;
                    shorter += 1;
                    let again = error.kind == ModelErrorKind::TooLong && shorter <= SHORTER;
                    if again && self.make_shorter(shorter, run).await? {
                        continue;
                    }
                    let text = format!("There is no answer from the model. {error}");
                    return Err(Over::new(Ending::Model { error }, text));
                }
            }
        }
    }

    /// Takes an answer into journal and talk.
    fn take(&mut self, round: u64, answer: Answer, run: &mut Run<'_>) -> Result<Said, Over> {
        self.window.counted(self.request_weight(), &answer.usage);
        let (mut answer, calls) = self.fit(answer);
        self.count(&answer.usage, &answer.message.text, run);
        let text = std::mem::take(&mut answer.message.text);
        let is_empty = text.trim().is_empty();
        // No provider takes a message back that says nothing.
        answer.message.text =
            if is_empty && calls.is_empty() { "(no answer)".to_owned() } else { text.clone() };
        let (message, stop, usage) = (answer.message.clone(), answer.stop.clone(), answer.usage);
        self.record(&[Chapter::Answered { round, answer: Box::new(answer) }])?;
        run.tell(Event::Answer { text: text.clone(), calls: message.calls.clone(), usage });
        self.push(Message::Model(message));
        Ok(Said { text: if is_empty { String::new() } else { text }, calls, stop })
    }

    /// Counts what an answer cost.
    pub(super) fn count(&mut self, usage: &Usage, text: &str, run: &mut Run<'_>) {
        self.usage += *usage;
        if usage.total() == 0 {
            run.uncounted(self.window.tokens(self.request_weight() + text.len() as u64));
        }
    }

    /// The answer to the talk as it is.
    async fn answer(&self, run: &mut Run<'_>, may_call: bool) -> Result<Answer, Broken> {
        let request = Request {
            system: &self.options.system,
            tools: &self.tools,
            messages: &self.messages,
            may_call,
            max_output: self.options.max_output,
            temperature: self.options.temperature,
        };
        self.answer_to(request, run, true).await
    }

    /// The answer to a request. It ends when the run is stopped, and when its time is exceeded by far.
    pub(super) async fn answer_to(
        &self,
        request: Request<'_>,
        run: &mut Run<'_>,
        shown: bool,
    ) -> Result<Answer, Broken> {
        let (give_up, own) = Cancel::pair();
        let cancel = own.or(run.control.stopped());
        let (timer, stopped) = (run.timer(true), run.control.stopped().clone());
        let mut pieces = Pieces::new(&self.runtime);
        let ended = {
            let mut listener = |piece: Piece| {
                if shown {
                    pieces.take(piece, &mut |piece| run.tell(Event::Piece(piece)));
                }
            };
            let mut asked = self.model.answer(request, &mut listener, &cancel);
            let ended = tokio::select! {
                biased;
                answered = &mut asked => Ok(answered),
                () = stopped.cancelled() => Err(false),
                () = timer.over() => Err(true),
            };
            if ended.is_err() {
                give_up.cancel();
                // It has a moment to end by itself, and is dropped then.
                let _ = tokio::time::timeout(GRACE, asked).await;
            }
            ended
        };
        pieces.finish(&mut |piece| run.tell(Event::Piece(piece)));
        match ended {
            Ok(answered) => answered.map_err(|error| Broken::of(error, &stopped)),
            Err(true) => Err(Broken::Over(self.out_of_words(Bound::Time, run))),
            Err(false) => Err(Broken::Over(cancelled())),
        }
    }

    /// The hash of the next request. What was hashed before is not hashed again.
    fn request_hash(&mut self, may_call: bool) -> String {
        let (mut digest, hashed) = match self.digest.take() {
            Some(known) => known,
            None => (Digest::new(&self.options.system, &self.tools), 0),
        };
        self.messages.iter().skip(hashed).for_each(|message| digest.add(message));
        let hash = digest.of_request(may_call);
        self.digest = Some((digest, self.messages.len()));
        hash
    }
}

/// Why there is no answer.
pub(super) enum Broken {
    Over(Over),
    Model(ModelError),
}

impl Broken {
    fn of(error: ModelError, stopped: &Cancel) -> Broken {
        match error.kind {
            ModelErrorKind::Cancelled if stopped.is_cancelled() => Broken::Over(cancelled()),
            _ => Broken::Model(error),
        }
    }
}
