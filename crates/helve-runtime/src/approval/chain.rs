//! Several approvers, one after the other: the next is asked where one says that nobody is there.

use std::sync::Arc;

use helve_core::BoxFuture;

use super::{Answer, Approval, ApprovalRequest, Approver};

/// The approvers in the order in which they are asked.
pub(crate) struct Chain(pub(crate) Vec<Arc<dyn Approver>>);

impl Approver for Chain {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let answers = self.ask_many(std::slice::from_ref(request)).await;
            answers.into_iter().next().unwrap_or_else(nobody)
        })
    }

    fn ask_many<'a>(&'a self, requests: &'a [ApprovalRequest]) -> BoxFuture<'a, Vec<Answer>> {
        Box::pin(async move {
            let mut answers: Vec<Answer> = requests.iter().map(|_| nobody()).collect();
            for approver in &self.0 {
                let open: Vec<usize> =
                    (0..requests.len()).filter(|at| answers[*at].approval == Approval::Nobody).collect();
                if open.is_empty() {
                    break;
                }
                let left: Vec<ApprovalRequest> = open.iter().map(|at| requests[*at].clone()).collect();
                // An approver that gives too few answers gave none for the rest.
                for (at, answer) in open.into_iter().zip(approver.ask_many(&left).await) {
                    answers[at] = answer;
                }
            }
            answers
        })
    }

    fn has_answer(&self, request: &ApprovalRequest) -> bool {
        self.0.iter().any(|approver| approver.has_answer(request))
    }
}

fn nobody() -> Answer {
    Answer::new("nobody", Approval::Nobody)
}
