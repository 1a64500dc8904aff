//! What is kept between the rounds of a request that asks something, where the protocol has no state: the client carries it.
//!
//! The state says what was asked and what has been answered so far. It is signed with a key of this process, bound to the
//! client and to the very request, and expires; each is taken once. A state that is none of ours, or of another request, is
//! an error of the request's parameters.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::ErrorData;
use rmcp::model::{RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How long a client may take to come again: a person may be asked in between.
const TTL: Duration = Duration::from_secs(30 * 60);
/// So many used states are remembered; older ones have mostly expired.
const MOST_USED: usize = 16 << 10;
/// So long may all answers of a request be together.
const MAX_STATE_BYTES: usize = 256 << 10;

/// Seals and opens states.
pub(super) struct Rounds {
    codec: RequestStateCodec,
    used: Mutex<HashMap<String, Instant>>,
}

/// What a client carries.
#[derive(Default, Serialize, Deserialize)]
struct State {
    /// What makes it one of its kind.
    once: String,
    /// The keys of what was asked last.
    asked: Vec<String>,
    /// The answers of the rounds before.
    answers: BTreeMap<String, Value>,
}

/// The very request that a state is bound to.
pub(super) struct Bound(Vec<u8>);

impl Bound {
    pub(super) fn new(client: &str, method: &str, name: &str, args: Option<&Value>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in [client, method, name] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        if let Some(args) = args {
            hasher.update(sorted(args).to_string().as_bytes());
        }
        Bound(hasher.finalize().as_bytes().to_vec())
    }
}

/// A value whose members stand in the order of their names, whatever order they came in.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> =
                members.iter().map(|(name, value)| (name.clone(), sorted(value))).collect();
            members.sort_by(|one, other| one.0.cmp(&other.0));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

impl Rounds {
    /// With a fresh key.
    pub(super) fn new() -> std::io::Result<Self> {
        let key = random::<32>()?;
        Ok(Rounds { codec: RequestStateCodec::new_unchecked(key), used: Mutex::default() })
    }

    /// The answers that a request brings, those of earlier rounds with it. Answers to what was not asked are not looked at.
    pub(super) fn open(
        &self,
        bound: &Bound,
        state: Option<&str>,
        responses: Option<BTreeMap<String, Value>>,
    ) -> Result<BTreeMap<String, Value>, ErrorData> {
        let Some(sealed) = state else { return Ok(BTreeMap::new()) };
        let opened = self.codec.open_with(sealed, &bound.0).map_err(|error| invalid(&error.to_string()))?;
        let state: State = serde_json::from_slice(&opened).map_err(|_| invalid("it cannot be read"))?;
        self.use_up(&state.once)?;
        let mut answers = state.answers;
        let fits = |key: &String, answer: &Value| answer.is_object() && state.asked.contains(key);
        answers.extend(responses.into_iter().flatten().filter(|(key, answer)| fits(key, answer)));
        Ok(answers)
    }

    /// The state for the next round.
    pub(super) fn seal(
        &self,
        bound: &Bound,
        asked: Vec<String>,
        answers: BTreeMap<String, Value>,
    ) -> Result<String, ErrorData> {
        let once = random::<16>().map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let once = once.iter().map(|byte| format!("{byte:02x}")).collect();
        let state = serde_json::to_vec(&State { once, asked, answers }).unwrap_or_default();
        if state.len() > MAX_STATE_BYTES {
            return Err(invalid("the answers are too long to be carried"));
        }
        Ok(self.codec.seal_with(&state, &SealOptions::new().associated_data(&bound.0).ttl(TTL)))
    }

    fn use_up(&self, once: &str) -> Result<(), ErrorData> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if used.len() >= MOST_USED {
            used.retain(|_, at| now.duration_since(*at) < TTL);
        }
        if used.len() >= MOST_USED {
            return Err(ErrorData::internal_error(
                "Too many requests with questions at once; come again later.",
                None,
            ));
        }
        match used.insert(once.to_owned(), now) {
            None => Ok(()),
            Some(_) => Err(invalid("it was used before")),
        }
    }
}

fn invalid(why: &str) -> ErrorData {
    ErrorData::invalid_params(
        format!("requestState is not taken: {why}. Make the request anew without it."),
        None,
    )
}

/// Bytes that nobody can guess.
pub(super) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    use std::io::Read as _;
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn bound(client: &str, args: Value) -> Bound {
        Bound::new(client, "tools/call", "t", Some(&args))
    }

    fn answer(key: &str, value: Value) -> Option<BTreeMap<String, Value>> {
        Some(BTreeMap::from([(key.to_owned(), value)]))
    }

    #[test]
    fn answers_of_all_rounds_come_together() {
        let rounds = Rounds::new().unwrap();
        let at = bound("a", json!({"x": 1, "y": [2]}));
        let first = rounds.seal(&at, vec!["one".into()], BTreeMap::new()).unwrap();
        let given = rounds.open(&at, Some(&first), answer("one", json!({"v": 1}))).unwrap();
        let second = rounds.seal(&at, vec!["two".into()], given).unwrap();
        let same = bound("a", json!({"y": [2], "x": 1}));
        let given = rounds.open(&same, Some(&second), answer("two", json!({"v": 2}))).unwrap();
        assert_eq!(given, BTreeMap::from([("one".into(), json!({"v": 1})), ("two".into(), json!({"v": 2}))]));
    }

    #[test]
    fn answers_nobody_asked_for_are_not_taken() {
        let rounds = Rounds::new().unwrap();
        let at = bound("a", json!({}));
        assert_eq!(rounds.open(&at, None, answer("one", json!({}))).unwrap(), BTreeMap::new());
        let state = rounds.seal(&at, vec!["one".into()], BTreeMap::new()).unwrap();
        assert_eq!(rounds.open(&at, Some(&state), answer("other", json!({}))).unwrap(), BTreeMap::new());
        let state = rounds.seal(&at, vec!["one".into()], BTreeMap::new()).unwrap();
        assert_eq!(rounds.open(&at, Some(&state), answer("one", json!(7))).unwrap(), BTreeMap::new());
    }

    #[test]
    fn a_state_is_taken_once_and_for_its_request_only() {
        let rounds = Rounds::new().unwrap();
        let at = bound("a", json!({"x": 1}));
        let state = rounds.seal(&at, vec!["one".into()], BTreeMap::new()).unwrap();
        for other in [bound("b", json!({"x": 1})), bound("a", json!({"x": 2}))] {
            assert!(rounds.open(&other, Some(&state), None).is_err());
        }
        let mut tampered = state.clone();
        tampered.pop();
        assert!(rounds.open(&at, Some(&tampered), None).is_err());
        assert!(Rounds::new().unwrap().open(&at, Some(&state), None).is_err());
        assert!(rounds.open(&at, Some(&state), None).is_ok());
        assert_eq!(rounds.open(&at, Some(&state), None).unwrap_err().code.0, -32602);
    }
}
