//! Whoever listens is behind: the loop waits for it, but no longer than its time, and not after it was stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use helve::store::{Home, Journal, JournalOptions};
use helve::{BoxFuture, Cancel, Runtime};
use helve_agent::control::Control;
use helve_agent::events::{Bound, Bounds, Ending, Event};
use helve_agent::model::{Answer, Card, Listener, Model, ModelError, Piece, Request};
use helve_agent::run::{Agent, Options};
use helve_agent::talk::{ModelMessage, Stop, Usage, UserMessage};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::{Parrot, Place, SESSION, Says};

/// How much it says.
const WORDS: usize = 20;
const A_MOMENT: Duration = Duration::from_millis(300);

/// A model that says one word after the other, as they come from a connection.
struct Streams {
    card: Card,
    said: AtomicUsize,
}

impl Model for Streams {
    fn card(&self) -> &Card {
        &self.card
    }

    fn answer<'a>(
        &'a self,
        _request: Request<'a>,
        listener: Listener<'a>,
        _cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Answer, ModelError>> {
        Box::pin(async move {
            for _ in 0..WORDS {
                listener(Piece::Text { text: "word ".into() });
                self.said.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
            let message = ModelMessage { text: "word ".repeat(WORDS), ..ModelMessage::default() };
            Ok(Answer { message, stop: Stop::Done, usage: Usage::default(), model: "streams".into() })
        })
    }
}

/// A talk that may take so long.
fn agent(place: &Place, runtime: &Runtime, model: Arc<dyn Model>, time: Option<Duration>) -> Agent {
    let home = Home::open(&place.path("state")).unwrap();
    let journal = Journal::open(&home, SESSION, JournalOptions::default()).unwrap();
    let bounds = Bounds { time, ..Bounds::default() };
    Agent::new(runtime.clone(), model, journal, Options { bounds, ..Options::default() })
}

/// Runs an agent to its end.
async fn run(agent: &mut Agent, control: &Control, watch: &mut (dyn FnMut(Event) + Send)) -> Ending {
    let message = UserMessage { text: "go".into(), ..UserMessage::default() };
    let over = tokio::time::timeout(Duration::from_secs(30), agent.run(message, control, watch));
    over.await.unwrap_or_else(|_| panic!("the run does not end"))
}

fn later(control: &Control, what: impl FnOnce(&Control) + Send + 'static) {
    let control = control.clone();
    tokio::spawn(async move {
        tokio::time::sleep(A_MOMENT).await;
        what(&control);
    });
}

#[tokio::test]
async fn no_more_of_an_answer_is_taken_until_there_is_room() {
    let place = Place::new();
    let runtime = place.builder("").build().unwrap();
    let Parrot { card, .. } = Arc::into_inner(Parrot::new(Vec::new())).unwrap();
    let model = Arc::new(Streams { card, said: AtomicUsize::new(0) });
    let mut agent = agent(&place, &runtime, Arc::clone(&model) as Arc<dyn Model>, None);
    let control = Control::new();
    let heard = Arc::clone(&model);
    let (seen, at_room) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (pieces, waits) = (Arc::clone(&seen), Arc::clone(&at_room));
    let own = control.clone();
    let mut watch = move |event: Event| {
        let is_third = matches!(event, Event::Piece(_)) && pieces.fetch_add(1, Ordering::Relaxed) == 2;
        if is_third {
            own.set_behind(true);
            let (heard, waits) = (Arc::clone(&heard), Arc::clone(&waits));
            later(&own, move |control| {
                waits.store(heard.said.load(Ordering::Relaxed), Ordering::Relaxed);
                control.set_behind(false);
            });
        }
    };
    assert_eq!(run(&mut agent, &control, &mut watch).await, Ending::Answered);
    assert_eq!((at_room.load(Ordering::Relaxed), seen.load(Ordering::Relaxed)), (3, WORDS));
}

#[tokio::test]
async fn a_run_waits_no_longer_than_its_time() {
    let place = Place::new();
    let runtime = place.builder("").build().unwrap();
    let model = Parrot::new(vec![Says::words(&["I stand here."])]);
    let second = Duration::from_secs(1);
    let mut agent = agent(&place, &runtime, Arc::clone(&model) as Arc<dyn Model>, Some(second));
    let control = Control::new();
    control.set_behind(true);
    let (began, mut last) = (Instant::now(), None);
    let ending = run(&mut agent, &control, &mut |event| last = Some(event)).await;
    assert_eq!(ending, Ending::Bound { bound: Bound::Time });
    assert!((second..second * 5).contains(&began.elapsed()), "{:?}", began.elapsed());
    // It is asked where it stands, as at any end of the time.
    assert_eq!(model.asked().len(), 1);
    assert!(matches!(last, Some(Event::End { text, .. }) if text == "I stand here."));
}

#[tokio::test]
async fn a_run_that_waits_can_be_stopped_and_can_go_on() {
    for goes_on in [false, true] {
        let place = Place::new();
        let runtime = place.builder("").build().unwrap();
        let model = Parrot::new(vec![Says::words(&["Done."])]);
        let mut agent = agent(&place, &runtime, Arc::clone(&model) as Arc<dyn Model>, None);
        let control = Control::new();
        control.set_behind(true);
        later(&control, move |control| match goes_on {
            true => control.set_behind(false),
            false => control.stop_run(),
        });
        let began = Instant::now();
        let ending = run(&mut agent, &control, &mut |_| {}).await;
        assert_eq!(ending, if goes_on { Ending::Answered } else { Ending::Cancelled });
        assert!(began.elapsed() >= A_MOMENT);
        assert_eq!(model.asked().len(), usize::from(goes_on));
    }
}

/// What calls do is recorded at once, whoever listens.
#[tokio::test]
async fn calls_go_on_while_whoever_listens_is_behind() {
    let place = Place::new();
    let runtime = place.builder("").build().unwrap();
    let model = Parrot::new(vec![Says::calls(&[("echo", json!({"message": "one"}))])]);
    let mut agent = agent(&place, &runtime, Arc::clone(&model) as Arc<dyn Model>, None);
    let control = Control::new();
    let (own, mut results) = (control.clone(), 0);
    let mut watch = |event: Event| {
        if let Event::Calls { .. } = event {
            own.set_behind(true);
        }
        results += usize::from(matches!(event, Event::Result { .. }));
    };
    let ends = later_recorded(&place, &control);
    assert_eq!(run(&mut agent, &control, &mut watch).await, Ending::Answered);
    assert_eq!((ends.await.unwrap(), results, model.asked().len()), (1, 1, 2));
}

/// Lets the run go on a moment after it began, and says how many calls had ended by then.
fn later_recorded(place: &Place, control: &Control) -> tokio::task::JoinHandle<usize> {
    let (journal, control) = (place.path("state/sessions/around/journal.jsonl"), control.clone());
    tokio::spawn(async move {
        tokio::time::sleep(A_MOMENT * 3).await;
        let journal = std::fs::read_to_string(journal).unwrap();
        control.set_behind(false);
        journal.matches("\"type\":\"outcome\"").count()
    })
}
