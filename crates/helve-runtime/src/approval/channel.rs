//! A broker for another part of the program: questions come out as a stream, answers go in by the id of the call. What
//! an MCP client, a web page or a chat can be put behind.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helve_core::{BoxFuture, CallId};
use tokio::sync::{mpsc, oneshot};

use super::{Answer, Approval, ApprovalRequest, Approver};

/// Questions that wait to be taken; there is nobody for more.
const WAITING: usize = 64;

type Waiting = Arc<Mutex<HashMap<CallId, oneshot::Sender<Approval>>>>;

/// The end that asks; give it to the runtime.
pub struct Channel {
    name: String,
    timeout: Duration,
    questions: mpsc::Sender<ApprovalRequest>,
    waiting: Waiting,
}

/// The end that answers. When it is dropped, there is nobody to ask.
pub struct Questions {
    questions: mpsc::Receiver<ApprovalRequest>,
    waiting: Waiting,
}

/// A broker that the journal calls `name`. A question that is not answered within `timeout` has timed out.
pub fn channel(name: impl Into<String>, timeout: Duration) -> (Channel, Questions) {
    let (to, questions) = mpsc::channel(WAITING);
    let waiting = Waiting::default();
    let channel = Channel { name: name.into(), timeout, questions: to, waiting: Arc::clone(&waiting) };
    (channel, Questions { questions, waiting })
}

impl Questions {
    /// The next question; none when nobody can ask any more.
    pub async fn next(&mut self) -> Option<ApprovalRequest> {
        self.questions.recv().await
    }

    /// Answers the question about a call; false when it no longer waits for one.
    pub fn answer(&self, call: &CallId, approval: Approval) -> bool {
        let waiting = lock(&self.waiting).remove(call);
        waiting.is_some_and(|waiting| waiting.send(approval).is_ok())
    }
}

impl Drop for Questions {
    fn drop(&mut self) {
        self.questions.close();
        lock(&self.waiting).clear();
    }
}

/// A question that is open; taken back when it is dropped.
struct Open<'a> {
    channel: &'a Channel,
    call: CallId,
    answer: oneshot::Receiver<Approval>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        lock(&self.channel.waiting).remove(&self.call);
    }
}

impl Channel {
    fn put(&self, request: &ApprovalRequest) -> Option<Open<'_>> {
        let (to, answer) = oneshot::channel();
        lock(&self.waiting).insert(request.call.clone(), to);
        let open = Open { channel: self, call: request.call.clone(), answer };
        self.questions.try_send(request.clone()).ok().map(|()| open)
    }

    async fn wait(&self, open: Option<Open<'_>>) -> Answer {
        let approval = match open {
            None => Approval::Nobody,
            Some(mut open) => match tokio::time::timeout(self.timeout, &mut open.answer).await {
                Ok(answer) => answer.unwrap_or(Approval::Nobody),
                Err(_) => Approval::TimedOut,
            },
        };
        Answer::new(&self.name, approval)
    }
}

impl Approver for Channel {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        Box::pin(async move { self.wait(self.put(request)).await })
    }

    fn ask_many<'a>(&'a self, requests: &'a [ApprovalRequest]) -> BoxFuture<'a, Vec<Answer>> {
        Box::pin(async move {
            let open: Vec<_> = requests.iter().map(|request| self.put(request)).collect();
            let all_at = tokio::time::Instant::now() + self.timeout;
            let mut answers = Vec::with_capacity(open.len());
            for one in open {
                let answer = tokio::time::timeout_at(all_at, self.wait(one)).await;
                answers.push(answer.unwrap_or_else(|_| Answer::new(&self.name, Approval::TimedOut)));
            }
            answers
        })
    }
}

fn lock(waiting: &Waiting) -> MutexGuard<'_, HashMap<CallId, oneshot::Sender<Approval>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
