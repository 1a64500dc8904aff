//! Which of the recorded calls were taken back, by other recorded calls.

use std::collections::{HashMap, HashSet};

use super::UndoRecord;

/// Which calls were taken back: another call undoes them, and was not taken back itself. The order of the records does not
/// matter, as a clock may have given their calls any.
pub fn taken_back<'r>(records: impl IntoIterator<Item = &'r UndoRecord>) -> HashSet<String> {
    let undoes = |record: &'r UndoRecord| Some((record.call.as_str(), record.undoes.as_deref()?));
    let undoes: HashMap<&str, &str> = records.into_iter().filter_map(undoes).collect();
    // How many calls undo a call, of which it is not known yet whether they were taken back.
    let mut open: HashMap<&str, usize> = HashMap::new();
    undoes.values().for_each(|undone| *open.entry(undone).or_default() += 1);
    let mut known: Vec<&str> = undoes.keys().copied().filter(|call| !open.contains_key(call)).collect();
    let mut gone = HashSet::new();
    while let Some(call) = known.pop() {
        let Some(undone) = undoes.get(call).copied() else { continue };
        if !gone.contains(call) {
            gone.insert(undone.to_owned());
        }
        if let Some(left) = open.get_mut(undone) {
            *left -= 1;
            if *left == 0 {
                known.push(undone);
            }
        }
    }
    gone
}
