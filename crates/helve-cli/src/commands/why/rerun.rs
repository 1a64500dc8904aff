//! The recorded command once more: watched closely, over a layer that is dropped, without a network.
//!
//! It is a call like any other: the guard reads it, whoever has to agree is asked, and the journal has it. What is refused only
//! because of how it runs here is not told.

use std::path::PathBuf;

use helve::sandbox::Explained;
use helve::store::CallStory;
use helve::{Call, CallResult, ExecMode};
use serde_json::{Value, json};

use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::setup::{self, EXEC, Running};
use crate::{refused, ui};

/// How it runs. The first two say what the rules of the same words mean in a result.
const PREVIEW: &str = "tools.exec.mode = \"preview\"";
const NO_NETWORK: &str = "tools.exec.network = false";
const CLOSELY: &str = "tools.exec.explain = \"full\"";

/// What stands in a journal where a secret was.
const REDACTED: &str = "[REDACTED:";

pub(super) fn rerun(global: &Global, call: &str, story: &CallStory) -> Result<u8, Failure> {
    let planned = &story.planned;
    let command = command(call, story)?;
    let workspace = planned["workspace"].as_str().map(PathBuf::from).or_else(|| global.workspace.clone());
    let global = Global {
        workspace,
        config: global.config.clone(),
        set: global.set.clone(),
        json: global.json,
        session: global.session.clone(),
    };
    let usual = setup::policy(&global)?;
    let settings = [PREVIEW, NO_NETWORK, CLOSELY].map(str::to_owned).to_vec();
    let running = Running::for_call(&global, setup::policy_with(&global, settings)?, None, EXEC)?;
    let result = running.block_on(|runtime, _, _| async move {
        let result = runtime.call(Call::new(EXEC, command)).await;
        // What it changed was held for whoever asks; nobody does.
        let pending = runtime.pending_calls().is_ok_and(|all| {
            let id = result.call.to_string();
            all.iter().any(|record| record.call == id)
        });
        match pending {
            true => runtime.discard(&result.call.to_string()).await.map(|_| result),
            false => Ok(result),
        }
    })?;
    let result = result.map_err(|error| Failure::internal(error.message))?;
    if result.details["layer"].is_null() {
        // It did not run: the result says why.
        ui::print(&result.text())?;
        return Ok(result.exit_code());
    }
    let (denied, more) = refused::of_details(&result.details);
    let (network, direct) = (usual.commands_reach_network(), usual.exec_mode() == ExecMode::Direct);
    let only_here = |one: &Explained| one.rule == PREVIEW && direct || one.rule == NO_NETWORK && network;
    let (skipped, denied): (Vec<_>, Vec<_>) = denied.into_iter().partition(only_here);
    if global.json {
        ui::print_json(&json!({
            "call": call,
            "rerun": result.call,
            "command": planned["args"]["command"],
            "exit_code": result.details["exit_code"],
            "then_exit_code": story.outcome.as_ref().map(|outcome| &outcome["details"]["exit_code"]),
            "denied": denied,
            "denied_more": more,
            "not_repeated": skipped.iter().map(Explained::what).collect::<Vec<_>>(),
        }))?;
    } else {
        ui::print_styled(&told(&result, &denied, more, &skipped))?;
    }
    Ok(0)
}

/// The arguments of the command, if it is one that can run again.
fn command(call: &str, story: &CallStory) -> Result<Value, Failure> {
    let planned = &story.planned;
    let args = &planned["args"];
    if planned["tool"].as_str() != Some(EXEC) || args["command"].as_str().is_none() {
        return Err(Failure::usage(format!("{call} ran no command. Only calls of {EXEC} can be run again")));
    }
    if args.to_string().contains(REDACTED) {
        return Err(Failure::usage(format!(
            "the journal does not have the whole command of {call}: a secret stood in it. Run it yourself with --set \
             'tools.exec.explain=\"full\"' --set tools.exec.mode=preview"
        )));
    }
    if story.outcome.as_ref().is_some_and(|outcome| outcome["decision"]["verdict"] == "deny") {
        return Err(Failure::usage(format!(
            "{call} was refused before anything ran. `helve why {call}` tells by which rule"
        )));
    }
    Ok(args.clone())
}

fn told(result: &CallResult, denied: &[Explained], more: u64, skipped: &[Explained]) -> String {
    let ended = match &result.details["exit_code"] {
        Value::Null => "It was ended.".to_owned(),
        code => format!("It ended with code {code}."),
    };
    let mut text = format!(
        "Ran again as {}, over a layer that is dropped and without a network. {ended}\n",
        ui::styled(ui::STRONG, &result.call.to_string())
    );
    match denied.is_empty() {
        true => text.push_str("Nothing that was seen was refused to it.\n"),
        false => text.push_str(&refused::told(denied, more)),
    }
    for one in skipped {
        text.push_str(&format!("not repeated here: {}\n", one_line(&one.what(), 300)));
    }
    text
}
