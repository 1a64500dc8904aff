//! Whatever a model answers, the talk stays valid and the journal tells the same.

use helve_agent::model::ModelErrorKind;
use helve_agent::talk::Stop;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::check::{Told, always, calls_of};
use super::script::{CardOf, Reply};
use super::*;

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just("echo".to_owned()),
        1 => prop::sample::select(vec!["nothing", "picture", "boom", "leak", "count", "asks", "read_output", "read_file"])
            .prop_map(str::to_owned),
        1 => "\\PC{0,80}",
    ]
}

fn args() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => "\\PC{0,40}".prop_map(|text| json!({"message": text})),
        1 => (0_usize..4_000).prop_map(|many| json!({"message": "é".repeat(many)})),
        1 => "[\\[\\]{}\":,a0 \\\\]{0,30}".prop_map(Value::String),
        1 => Just(json!({"call": "c_01", "path": "../.."})),
        1 => Just(json!(null)),
    ]
}

fn id() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => Just(Value::Null),
        2 => prop::sample::select(vec!["a", "b", "call_1", "call_2"]).prop_map(|id| json!(id)),
        1 => "\\PC{0,120}".prop_map(Value::String),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let calls = prop::collection::vec((name(), args(), id()).prop_map(|(n, a, i)| json!([n, a, i])), 0..5);
    let stop = prop_oneof![
        4 => Just(None),
        1 => Just(Some(Stop::Length)),
        1 => Just(Some(Stop::Refused)),
        1 => Just(Some(Stop::Calls)),
        1 => Just(Some(Stop::Other("odd".to_owned()))),
    ];
    let error = prop_oneof![
        12 => Just(None),
        1 => Just(Some(ModelErrorKind::TooLong)),
        1 => Just(Some(ModelErrorKind::Busy)),
    ];
    let text = prop_oneof![2 => "\\PC{0,40}", 1 => Just(String::new()), 1 => Just(SECRET.to_owned())];
    let usage = prop_oneof![Just([0; 3]), Just([u64::MAX; 3]), Just([50, 900, 7]), Just([1, 0, 0])];
    (text, calls, stop, error, usage, any::<bool>(), prop::option::of("\\PC{1,9}"), 0..20_u32).prop_map(
        |(text, calls, stop, error, usage, kept, steer, stops)| Reply {
            text,
            calls,
            stop,
            error,
            usage,
            kept,
            steer,
            stop_run: stops == 0,
            ..Reply::default()
        },
    )
}

/// Plays such answers; what is wrong afterwards.
async fn played(replies: Vec<Reply>, window: u64) -> Result<(), String> {
    let card = CardOf { window, ..CardOf::default() };
    let scenario = Scenario {
        name: "any".into(),
        policy: String::new(),
        card,
        bounds: BoundsOf::default(),
        toolset: None,
        files: BTreeMap::new(),
        say: go(),
        model: replies,
        summary: None,
        on: Vec::new(),
        commands: false,
        want: Wanted::default(),
    };
    let place = Place::new();
    let control = Control::new();
    let model = scenario.model(&control);
    let options = Options {
        system: SYSTEM.to_owned(),
        bounds: Bounds { rounds: 12, ..Bounds::default() },
        ..Options::default()
    };
    let mut agent = Agent::new(place.runtime(""), model.clone(), place.journal(), options);
    let events = Arc::default();
    let mut watch = watcher(&scenario, &control, &events);
    let message = UserMessage { text: "go".into(), ..UserMessage::default() };
    let ending = agent.run(message, &control, &mut watch).await;
    let events = events.lock().unwrap().clone();
    always(&Told { place: &place, agent: &agent, seen: model.seen(), events: &events, ending, took_ms: 0 })?;
    let results: usize = agent
        .messages()
        .iter()
        .map(|message| match message {
            helve_agent::talk::Message::Results { results } => results.len(),
            _ => 0,
        })
        .sum();
    if results == calls_of(agent.messages()) { Ok(()) } else { Err("a call without a result".to_owned()) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn the_talk_stays_valid(replies in prop::collection::vec(reply(), 0..9), window in 2_000_u64..20_000) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let played = runtime.block_on(played(replies, window));
        prop_assert!(played.is_ok(), "{}", played.unwrap_err());
    }
}
