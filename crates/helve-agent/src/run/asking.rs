//! Asks the model, and again where the talk was too long for it.

use std::pin::pin;
use std::time::Duration;

use helve::Cancel;

use super::limits::Run;
use super::pieces::Pieces;
use super::{Agent, Over, cancelled};
use crate::events::{Bound, Ending, Event};
use crate::model::{Answer, ModelError, ModelErrorKind, Piece, Request};
use crate::story::{Chapter, Digest};
use crate::talk::{Message, ModelMessage, Stop, ToolUse, Usage};
use crate::window::weight;

/// So often is a talk made shorter for one request.
const SHORTER: u32 = 3;
/// How long a model has to end that was told to.
const GRACE: Duration = Duration::from_secs(2);

/// Why an answer ends that the owner or the clock stopped.
const STOPPED: &str = "stopped";

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
                Err(Broken::Cut { text, over }) => {
                    self.keep_part(round, text)?;
                    return Err(over);
                }
                Err(Broken::Model(error)) => {
                    self.record(&[Chapter::Failed { round, error: error.clone() }])?;
                    shorter += 1;
                    let again = error.kind == ModelErrorKind::TooLong && shorter <= SHORTER;
                    let before = self.rounds;
                    if again && self.make_shorter(shorter, run).await? {
                        // Only summaries cost something here; without one the last words may still come.
                        match self.spent(Usage::default(), run).filter(|_| self.rounds > before) {
                            Some(bound) => return Err(self.out_of_words(bound, run)),
                            None => continue,
                        }
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
        self.count(&answer, self.request_weight(), run);
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

    /// Takes the beginning of an answer that was stopped into journal and talk: the owner has read it.
    fn keep_part(&mut self, round: u64, text: String) -> Result<(), Over> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let message = ModelMessage { text, ..ModelMessage::default() };
        let stop = Stop::Other(STOPPED.to_owned());
        let answer = Answer { message, stop, usage: Usage::default(), model: String::new() };
        let (answer, _) = self.fit(answer);
        let message = answer.message.clone();
        self.record(&[Chapter::Answered { round, answer: Box::new(answer) }])?;
        self.push(Message::Model(message));
        Ok(())
    }

    /// Counts what an answer cost to a request of that weight.
    pub(super) fn count(&mut self, answer: &Answer, request: u64, run: &mut Run<'_>) {
        self.usage += answer.usage;
        let (message, counted) = (&answer.message, &answer.usage);
        let is_counted = counted.output > 0 || (message.text.is_empty() && message.calls.is_empty());
        let said = if is_counted { 0 } else { weight(&Message::Model(message.clone())) };
        run.uncounted(self.uncounted(counted, request, said));
    }

    /// What a try cost that came to nothing after so many bytes, beyond what the provider counted of it: whoever counts while
    /// an answer comes has not counted the end of one that broke off.
    fn uncounted_of_try(&self, counted: &Usage, request: u64, said: u64) -> Usage {
        if said == 0 { Usage::default() } else { self.uncounted(counted, request, said) }
    }

    /// About what a request and an answer of so many bytes cost beyond what was counted.
    fn uncounted(&self, counted: &Usage, request: u64, said: u64) -> Usage {
        let input = if counted.input == 0 && counted.cached == 0 { self.window.tokens(request) } else { 0 };
        let output = self.window.tokens(said).saturating_sub(counted.output);
        Usage { input, output, ..Usage::default() }
    }

    /// The answer to the talk as it is.
    async fn answer(&mut self, run: &mut Run<'_>, may_call: bool) -> Result<Answer, Broken> {
        let request = Request {
            system: &self.options.system,
            tools: &self.tools,
            messages: &self.messages,
            may_call,
            max_output: self.options.max_output,
            temperature: self.options.temperature,
        };
        let (answer, lost) = self.answer_to(request, self.request_weight(), run, true).await;
        self.usage += lost;
        answer
    }

    /// The answer to a request that weighs so much, and what the provider counted for tries that came to nothing. It ends when
    /// the run is stopped, and when its time is exceeded by far.
    pub(super) async fn answer_to(
        &self,
        request: Request<'_>,
        weight: u64,
        run: &mut Run<'_>,
        shown: bool,
    ) -> (Result<Answer, Broken>, Usage) {
        let (give_up, own) = Cancel::pair();
        let cancel = own.or(run.control.stopped());
        let stopped = run.control.stopped().clone();
        let (late, pace) = (run.timer(true), run.pace());
        let (mut pieces, mut heard) = (Pieces::new(&self.runtime), Heard::default());
        let (mut lost, mut bound) = (Usage::default(), None);
        let ended = {
            let mut listener = |piece: Piece| {
                let broken = heard.take(&piece);
                if shown {
                    pieces.take(piece, &mut |piece| run.tell(Event::Piece(piece)));
                }
                let Some((counted, said)) = broken else { return };
                lost += counted;
                run.uncounted(self.uncounted_of_try(&counted, weight, said));
                // A try that cost nothing does not end the last words, for which a bound is reached already.
                if said > 0 || !counted.is_nothing() {
                    bound = self.spent(lost, run);
                }
                if bound.is_some() {
                    give_up.cancel();
                }
            };
            let mut asked = pin!(pace.keep(self.model.answer(request, &mut listener, &cancel)));
            let ended = tokio::select! {
                biased;
                answered = &mut asked => Ok(answered),
                () = stopped.cancelled() => Err(false),
                () = late.over() => Err(true),
            };
            if ended.is_err() {
                give_up.cancel();
                // It has a moment to end by itself, and is dropped then.
                let _ = tokio::time::timeout(GRACE, asked).await;
            }
            ended
        };
        pieces.finish(&mut |piece| run.tell(Event::Piece(piece)));
        let Heard { text, bytes } = heard;
        let taken_back = stopped.is_cancelled() || bound.is_some();
        let over = match ended {
            Ok(Ok(answer)) => return (Ok(answer), lost),
            Ok(Err(error)) if error.kind != ModelErrorKind::Cancelled || !taken_back => {
                lost += error.usage;
                run.uncounted(self.uncounted_of_try(&error.usage, weight, bytes));
                return (Err(Broken::Model(self.without_secrets(error))), lost);
            }
            Ok(Err(_)) | Err(false) => match bound.filter(|_| !stopped.is_cancelled()) {
                Some(bound) => self.out_of_words(bound, run),
                None => cancelled(),
            },
            Err(true) => self.out_of_words(Bound::Time, run),
        };
        run.uncounted(self.uncounted_of_try(&Usage::default(), weight, bytes));
        (Err(Broken::Cut { text, over }), lost)
    }

    /// The bound on what may be spent that is reached, where the talk has lost so much beside what it has used.
    fn spent(&self, lost: Usage, run: &Run<'_>) -> Option<Bound> {
        let mut used = self.usage;
        used += lost;
        run.spent(&used, self.model.card().price)
    }

    /// An error as journal and owner may read it: a provider can say anything.
    fn without_secrets(&self, error: ModelError) -> ModelError {
        let message = self.runtime.without_secrets(&error.message);
        let hint = error.hint.map(|hint| self.runtime.without_secrets(&hint));
        ModelError { message, hint, ..error }
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
    /// It was stopped after that much of its text.
    Cut {
        text: String,
        over: Over,
    },
    Model(ModelError),
}

/// What came of an answer while it is not whole.
#[derive(Default)]
struct Heard {
    text: String,
    /// How much came in all, thoughts and calls too.
    bytes: u64,
}

impl Heard {
    /// Takes a piece. Where it ends a try: what the provider counted of that, and how much came.
    fn take(&mut self, piece: &Piece) -> Option<(Usage, u64)> {
        match piece {
            Piece::Text { text } => {
                self.bytes += text.len() as u64;
                self.text.push_str(text);
            }
            Piece::Thought { text } | Piece::Args { text, .. } | Piece::Call { name: text, .. } => {
                self.bytes += text.len() as u64;
            }
            Piece::Again { usage, .. } => {
                self.text.clear();
                return Some((*usage, std::mem::take(&mut self.bytes)));
            }
        }
        None
    }
}
