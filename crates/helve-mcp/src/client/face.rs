//! What a server sees of this end: who we are, what it may ask, and whom it tells that its lists have changed.

#![expect(deprecated, reason = "sampling, roots and logging are still spoken by servers of the older era")]

use std::sync::{Arc, MutexGuard};

use helve_core::QuestionKind;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
    ListRootsResult, ProtocolVersion, RootsCapabilities, SamplingCapability, UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Notify, watch};

use super::notices::Notices;
use super::questions::{Calls, Questions, Underway};

/// This end of a connection.
pub(crate) struct Face {
    pub(crate) questions: Questions,
    notices: Arc<Notices>,
    news: News,
}

/// Where it goes that a server's lists have changed.
#[derive(Clone)]
pub(crate) struct News {
    /// That of its tools.
    pub(crate) tools: Arc<Notify>,
    /// Those of its prompts and resources, counted.
    pub(crate) more: Arc<watch::Sender<u64>>,
}

impl Face {
    pub(crate) fn new(questions: Questions, notices: Arc<Notices>, news: News) -> Face {
        Face { questions, notices, news }
    }

    pub(crate) fn calls(&self) -> MutexGuard<'_, Calls> {
        self.notices.calls()
    }

    async fn answer<Params: Serialize, Answer: DeserializeOwned>(
        &self,
        kind: QuestionKind,
        params: &Params,
        context: &RequestContext<RoleClient>,
    ) -> Result<Answer, ErrorData> {
        let named = match context.extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id.clone()),
            _ => None,
        };
        let call = self.calls().of_question(named.as_ref());
        let params = to_value(params)?;
        let key = call.as_ref().map(Underway::next_key).unwrap_or_default();
        let answer = self.questions.answer(&key, kind, params, call.as_ref()).await?;
        serde_json::from_value(answer).map_err(|error| {
            ErrorData::internal_error(format!("the answer has the wrong shape: {error}"), None)
        })
    }
}

pub(crate) fn to_value(params: &impl Serialize) -> Result<Value, ErrorData> {
    serde_json::to_value(params).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// What kind of question an elicitation is.
pub(crate) fn elicitation_kind(params: &ElicitRequestParams) -> QuestionKind {
    match params {
        ElicitRequestParams::UrlElicitationParams { .. } => QuestionKind::Url,
        _ => QuestionKind::Form,
    }
}

impl ClientHandler for Face {
    fn get_info(&self) -> ClientConfig {
        let may = self.questions.may;
        let mut capabilities = ClientCapabilities::default();
        capabilities.sampling = may.sample.then(SamplingCapability::default);
        capabilities.roots = may.roots.then(RootsCapabilities::default);
        capabilities.elicitation = may.elicit.then(|| {
            let mut elicitation = ElicitationCapability::new().with_form(FormElicitationCapability::new());
            elicitation.url = Some(UrlElicitationCapability::new());
            elicitation
        });
        let this = Implementation::new("helve", env!("CARGO_PKG_VERSION")).with_title("Helve");
        let mut config = ClientConfig::new(capabilities, this);
        config.protocol_version = ProtocolVersion::V_2025_11_25;
        config
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.answer(QuestionKind::Sample, &params, &context).await
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.answer(elicitation_kind(&params), &params, &context).await
    }

    async fn list_roots(&self, context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.answer(QuestionKind::Roots, &Value::Null, &context).await
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.news.tools.notify_one();
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.news.more.send_modify(|version| *version += 1);
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.news.more.send_modify(|version| *version += 1);
    }
}
