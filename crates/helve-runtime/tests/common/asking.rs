//! An approver that answers by a function, and a place where every command that changes something asks.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use helve_core::{BoxFuture, Call, CallResult, ErrorKind};
use helve_runtime::{Answer, Approval, ApprovalRequest, Approver, Grant, Runtime, RuntimeBuilder, Scope};
use helve_store::{Approvals, Home};
use serde_json::{Value, json};

use super::{Printer, builder, journal, shell_tool};

/// Answers by a function and remembers what it was asked.
pub(crate) struct Scripted {
    answer: Box<dyn Fn(&ApprovalRequest) -> Approval + Send + Sync>,
    asked: Mutex<Vec<ApprovalRequest>>,
    pub(crate) rounds: Mutex<Vec<usize>>,
}

impl Scripted {
    pub(crate) fn new(answer: impl Fn(&ApprovalRequest) -> Approval + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Scripted { answer: Box::new(answer), asked: Mutex::default(), rounds: Mutex::default() })
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    pub(crate) fn last(&self) -> ApprovalRequest {
        self.asked.lock().unwrap().last().unwrap().clone()
    }
}

impl Approver for Scripted {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        self.asked.lock().unwrap().push(request.clone());
        let approval = (self.answer)(request);
        Box::pin(async move { Answer::new("test", approval) })
    }

    fn ask_many<'a>(&'a self, requests: &'a [ApprovalRequest]) -> BoxFuture<'a, Vec<Answer>> {
        self.rounds.lock().unwrap().push(requests.len());
        Box::pin(async move {
            let mut answers = Vec::new();
            for request in requests {
                answers.push(self.ask(request).await);
            }
            answers
        })
    }
}

/// Every offer of the request.
pub(crate) fn offers(request: &ApprovalRequest, scope: Scope) -> Vec<Grant> {
    let offers =
        request.parts.iter().enumerate().filter_map(|(part, asked)| Some((part, asked.offer.clone()?)));
    offers.map(|(part, pattern)| Grant { pattern, scope, expires: None, part }).collect()
}

pub(crate) fn session(request: &ApprovalRequest) -> Approval {
    Approval::Session { grants: offers(request, Scope::Session) }
}

pub(crate) fn always(request: &ApprovalRequest) -> Approval {
    Approval::Always { grants: offers(request, Scope::Workspace) }
}

pub(crate) fn once(_: &ApprovalRequest) -> Approval {
    Approval::Once
}

/// A place with a workspace and a state directory beside it.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
    runs: Arc<AtomicUsize>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["w", "w2"] {
            std::fs::create_dir_all(dir.path().join(name).join("sub")).unwrap();
        }
        Place { dir, runs: Arc::default() }
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn builder(&self, policy: &str) -> RuntimeBuilder {
        let bare = Printer { contained: false, pieces: vec![], runs: Arc::clone(&self.runs) };
        builder(self.dir.path(), policy)
            .workspace(self.path("w"))
            .register(shell_tool())
            .shell(Arc::new(bare))
    }

    pub(crate) fn runtime(&self, approver: &Arc<Scripted>) -> Runtime {
        let approver: Arc<dyn Approver> = Arc::clone(approver) as _;
        self.builder("limits.prompts_per_minute = 100").approver(approver).build().unwrap()
    }

    pub(crate) fn approvals(&self) -> Approvals {
        Approvals::open(&Home::open(&self.path("state")).unwrap()).unwrap()
    }

    pub(crate) fn ran(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

pub(crate) fn call(command: &str) -> Call {
    Call::new("sh", json!({"command": command}))
}

pub(crate) fn kind(result: &CallResult) -> Option<ErrorKind> {
    result.error.as_ref().map(|error| error.kind)
}

pub(crate) fn planned(root: &Path) -> Vec<Value> {
    let journal = journal(root);
    let entries = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries.filter(|entry| entry["type"] == "planned").map(|entry| entry["body"].clone()).collect()
}
