//! Answers the client's requests: one face a session, or one a request where there is none.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use helve_core::{Call, CallResult, Cancel, CancelHandle, ErrorKind, LogLevel};
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
    CustomRequest, CustomResult, ErrorCode, Extensions, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, Implementation, InputRequest, InputRequiredResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, Prompt,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceTemplate, ResultType, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

use crate::levels;

use super::exchange::{self, Left, Takes, Way, converse};
use super::listen::{self, Subscribed};
use super::rounds::{Bound, Rounds};
use super::running::Running;
use super::shown::{self, Listing};
use super::unread;
use super::{Card, Host, HostCall, Hosts};

/// How long a client may take a list for fresh, in milliseconds: it is told of changes if it listens.
const TTL_MS: u64 = 60_000;
/// The client of a server that asks for no token, and of standard streams.
pub const LOCAL: &str = "local";

/// What all faces of one server share.
pub(super) struct Shared {
    hosts: Arc<dyn Hosts>,
    card: Card,
    rounds: Rounds,
    pub(super) running: Arc<Running>,
    standing: Mutex<HashMap<String, Arc<Served>>>,
}

/// A host and the list of its tools.
pub(super) struct Served {
    pub(super) host: Arc<dyn Host>,
    listing: Mutex<Option<Arc<Listing>>>,
    /// The version of the tools that the client was shown last.
    shown: Mutex<Option<u64>>,
}

/// Which client a request over HTTP comes from: what its token says.
#[derive(Clone)]
pub(super) struct ClientName(pub(super) String);

/// One session, or one request without a session.
pub(super) struct Face {
    shared: Arc<Shared>,
    /// Whether a request can come without a session.
    http: bool,
    own: OnceLock<(String, Arc<Served>)>,
    pub(super) least: Mutex<LogLevel>,
    subscribed: Arc<Subscribed>,
    /// Fires when the client will say nothing more.
    gone: Cancel,
}

impl Shared {
    pub(super) fn new(hosts: Arc<dyn Hosts>) -> std::io::Result<Arc<Self>> {
        let card = hosts.card();
        let (rounds, running) = (Rounds::new()?, Running::new());
        Ok(Arc::new(Shared { hosts, card, rounds, running, standing: Mutex::default() }))
    }

    fn standing(&self, client: &str) -> Result<Arc<Served>, ErrorData> {
        let mut standing = lock(&self.standing);
        if let Some(served) = standing.get(client) {
            return Ok(Arc::clone(served));
        }
        let host = self.hosts.standing(client).map_err(|error| shown::refused(&error))?;
        let served = Arc::new(Served::new(host));
        standing.insert(client.to_owned(), Arc::clone(&served));
        Ok(served)
    }
}

impl Served {
    fn new(host: Arc<dyn Host>) -> Self {
        Served { host, listing: Mutex::default(), shown: Mutex::default() }
    }

    /// The tools as they are listed now.
    pub(super) fn listing(&self) -> Arc<Listing> {
        let version = self.host.tools_changes();
        let mut listing = lock(&self.listing);
        if let Some(made) = listing.as_ref().filter(|made| made.version == version) {
            return Arc::clone(made);
        }
        let made = Arc::new(Listing::new(version, &self.host.tools()));
        *listing = Some(Arc::clone(&made));
        made
    }

    /// Runs a call beside its talk with the client; tells too whether the tool publishes a schema of its results.
    pub(super) fn call<'c>(
        &'c self,
        call: Call,
        (client, beside): (String, bool),
        with: exchange::With<'c>,
        way: Way,
        cancel: (CancelHandle, Cancel),
        taken_back: impl Future<Output = ()> + 'c,
    ) -> impl Future<Output = (Box<CallResult>, Left, bool)> {
        let declared = self.listing().declares(&call.tool);
        let work = move |line| self.host.call(HostCall { call, client, line, beside });
        let talk = converse(with, way, cancel, taken_back, work);
        async move {
            let (result, left) = talk.await;
            (result, left, declared)
        }
    }
}

impl Face {
    pub(super) fn new(shared: Arc<Shared>, http: bool, gone: Cancel) -> Self {
        let (own, least) = (OnceLock::new(), Mutex::new(LogLevel::Debug));
        Face { shared, http, own, least, subscribed: Arc::default(), gone }
    }

    /// The host of whoever asks.
    pub(super) fn served(&self, extensions: &Extensions, stateless: bool) -> Result<Arc<Served>, ErrorData> {
        let client = client_of(extensions);
        if self.http && stateless {
            return self.shared.standing(client);
        }
        if self.own.get().is_none() {
            let host = self.shared.hosts.session(client).map_err(|error| shown::refused(&error))?;
            let served = Arc::new(Served::new(host));
            let _ = self.own.set((client.to_owned(), served));
        }
        match self.own.get() {
            Some((owner, served)) if *owner == client => Ok(Arc::clone(served)),
            _ => Err(ErrorData::invalid_request("This session belongs to another client.", None)),
        }
    }

    fn for_request(&self, context: &RequestContext<RoleServer>) -> Result<Arc<Served>, ErrorData> {
        self.served(&context.extensions, is_stateless(context))
    }

    /// How questions reach the client, with the answers that the request brought.
    fn way(
        &self,
        context: &RequestContext<RoleServer>,
        bound: &Bound,
        state: Option<&str>,
        responses: Option<BTreeMap<String, Value>>,
    ) -> Result<Way, ErrorData> {
        if !is_stateless(context) {
            return Ok(Way::Session);
        }
        self.shared.rounds.open(bound, state, responses).map(Way::Rounds)
    }

    /// The least grave message that the client wants.
    fn least(&self, context: &RequestContext<RoleServer>) -> Option<LogLevel> {
        match is_stateless(context) {
            true => context.meta.log_level().map(levels::ours),
            false => Some(*lock(&self.least)),
        }
    }

    /// The client of a request.
    fn with<'c>(&self, context: &'c RequestContext<RoleServer>) -> exchange::With<'c> {
        exchange::With {
            peer: &context.peer,
            request: Some(context.id.clone()),
            token: context.meta.get_progress_token(),
            takes: Takes::of(&context.client_capabilities().unwrap_or_default()),
            least: self.least(context),
        }
    }

    /// What the client has to answer before the request can be done.
    fn wanted(&self, bound: &Bound, left: Left) -> Result<InputRequiredResult, ErrorData> {
        let Left { open, answers, .. } = left;
        let mut requests = BTreeMap::new();
        for (key, (kind, params)) in open {
            let mut request = json!({"method": exchange::method(kind)});
            if !params.is_null() {
                request["params"] = params;
            }
            let request: InputRequest = serde_json::from_value(request).map_err(|error| {
                ErrorData::internal_error(format!("A question does not fit: {error}"), None)
            })?;
            requests.insert(key, request);
        }
        let state = self.shared.rounds.seal(bound, requests.keys().cloned().collect(), answers)?;
        Ok(InputRequiredResult::new(Some(requests), Some(state)))
    }
}

/// Whether a request carries all that is to be known about it, as those of the newer era do.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    let version = context.meta.protocol_version();
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// The client that a request comes from, as its token says.
fn client_of(extensions: &Extensions) -> &str {
    let parts = extensions.get::<http::request::Parts>();
    let name = parts.and_then(|parts| parts.extensions.get::<ClientName>());
    name.map_or(LOCAL, |name| &name.0)
}

/// What a client calls itself, short and plain.
fn calls_itself(context: &RequestContext<RoleServer>) -> String {
    plain(&context.client_info().map(|info| info.name).unwrap_or_default())
}

pub(super) fn plain(name: &str) -> String {
    let plain = name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c));
    plain.take(40).collect()
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cursor(request: &Option<PaginatedRequestParams>) -> Option<&str> {
    request.as_ref().and_then(|request| request.cursor.as_deref())
}

impl ServerHandler for Face {
    fn get_info(&self) -> ServerConfig {
        let card = &self.shared.card;
        let mut can = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_logging()
            .build();
        if card.prompts {
            let prompts =
                ServerCapabilities::builder().enable_prompts().enable_prompts_list_changed().build();
            can.prompts = prompts.prompts;
        }
        if card.completions {
            can.completions = ServerCapabilities::builder().enable_completions().build().completions;
        }
        let mut who = Implementation::new(card.name.clone(), card.version.clone());
        who.title.clone_from(&card.title);
        let mut config = ServerConfig::new(can).with_server_info(who);
        config.instructions.clone_from(&card.instructions);
        config
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let served = match self.own.get() {
            Some((_, served)) => Arc::clone(served),
            None => lock(&self.shared.standing).values().next().cloned()?,
        };
        served.listing().get(name).cloned()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let served = self.for_request(&context)?;
        let listing = served.listing();
        *lock(&served.shown) = Some(listing.version);
        let (tools, next_cursor) = shown::page(&listing.tools, cursor(&request), |tool| &tool.name)?;
        let listed = ListToolsResult { tools, next_cursor, ..ListToolsResult::default() };
        Ok(listed.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _run = self.shared.running.begin();
        let served = self.for_request(&context)?;
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let args = Value::Object(arguments.unwrap_or_default());
        let bound = Bound::new(client_of(&context.extensions), "tools/call", &name, Some(&args));
        let way = self.way(&context, &bound, request_state.as_deref(), input_responses)?;
        let call = Call { id: Some(json!(context.id)), ..Call::new(name, args) };
        let with = self.with(&context);
        let (client, taken_back) = (calls_itself(&context), self.shared.running.taken_back(&context));
        // Boxed: the protocol's loop copies the future of a request several times before it is polled.
        let talk = Box::pin(served.call(call, (client, false), with, way, Cancel::pair(), taken_back));
        let (result, left, declared) = talk.await;
        if let Some(error) = &result.error {
            if error.kind == ErrorKind::UnknownTool {
                return Err(shown::refused(&error.clone().into()));
            }
            if !left.open.is_empty() {
                return self.wanted(&bound, left).map(CallToolResponse::from);
            }
            if let Some(kind) = left.missing.filter(|_| is_stateless(&context)) {
                return Err(ErrorData::missing_required_client_capability(exchange::capability(kind)));
            }
        }
        Ok(shown::result(*result, declared).into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let served = self.for_request(&context)?;
        let resources = served.host.resources().await.map_err(|error| shown::refused(&error))?;
        let mut resources: Vec<Resource> = shown::typed(resources);
        resources.sort_by(|one, other| one.uri.cmp(&other.uri));
        let (resources, next_cursor) = shown::page(&resources, cursor(&request), |resource| &resource.uri)?;
        let listed = ListResourcesResult { resources, next_cursor, ..ListResourcesResult::default() };
        Ok(listed.with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let served = self.for_request(&context)?;
        let mut templates: Vec<ResourceTemplate> = shown::typed(served.host.resource_templates().await);
        templates.sort_by(|one, other| one.uri_template.cmp(&other.uri_template));
        let (resource_templates, next_cursor) =
            shown::page(&templates, cursor(&request), |template| &template.uri_template)?;
        let listed = ListResourceTemplatesResult {
            resource_templates,
            next_cursor,
            ..ListResourceTemplatesResult::default()
        };
        Ok(listed.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let _run = self.shared.running.begin();
        let served = self.for_request(&context)?;
        let ReadResourceRequestParams { uri, input_responses, request_state, .. } = request;
        let bound = Bound::new(client_of(&context.extensions), "resources/read", &uri, None);
        let way = self.way(&context, &bound, request_state.as_deref(), input_responses)?;
        let (with, client) = (self.with(&context), calls_itself(&context));
        let taken_back = self.shared.running.taken_back(&context);
        let work = |line| served.host.read(&uri, client, line);
        let (contents, left) = Box::pin(converse(with, way, Cancel::pair(), taken_back, work)).await;
        if contents.is_err() && !left.open.is_empty() {
            return self.wanted(&bound, left).map(ReadResourceResponse::from);
        }
        let contents = contents.map_err(|error| {
            let mut refused = shown::refused(&error);
            refused.data = Some(json!({"uri": uri, "kind": error.kind}));
            refused
        })?;
        let contents = contents.into_iter().filter_map(shown::resource).collect();
        Ok(ReadResourceResult::new(contents).with_ttl_ms(0).with_cache_scope(CacheScope::Private).into())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let served = self.for_request(&context)?;
        let mut prompts: Vec<Prompt> = shown::typed(served.host.prompts().await);
        prompts.sort_by(|one, other| one.name.cmp(&other.name));
        let (prompts, next_cursor) = shown::page(&prompts, cursor(&request), |prompt| &prompt.name)?;
        let listed = ListPromptsResult { prompts, next_cursor, ..ListPromptsResult::default() };
        Ok(listed.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let _run = self.shared.running.begin();
        let served = self.for_request(&context)?;
        let GetPromptRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let args = Value::Object(arguments.unwrap_or_default());
        let bound = Bound::new(client_of(&context.extensions), "prompts/get", &name, Some(&args));
        let way = self.way(&context, &bound, request_state.as_deref(), input_responses)?;
        let (with, client) = (self.with(&context), calls_itself(&context));
        let work = |line| served.host.prompt(&name, args, client, line);
        let taken_back = self.shared.running.taken_back(&context);
        let (prompt, left) = Box::pin(converse(with, way, Cancel::pair(), taken_back, work)).await;
        match prompt {
            Ok(prompt) => serde_json::from_value::<GetPromptResult>(prompt)
                .map(|mut prompt| {
                    prompt.result_type = Some(ResultType::COMPLETE);
                    GetPromptResponse::from(prompt)
                })
                .map_err(|error| {
                    ErrorData::internal_error(format!("The prompt does not fit: {error}"), None)
                }),
            Err(_) if !left.open.is_empty() => self.wanted(&bound, left).map(GetPromptResponse::from),
            Err(error) if error.kind == ErrorKind::NotFound => {
                Err(ErrorData::invalid_params(error.message, None))
            }
            Err(error) => Err(shown::refused(&error)),
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let served = self.for_request(&context)?;
        let completed = served.host.complete(json!(request)).await.map_err(|error| shown::refused(&error))?;
        serde_json::from_value::<CompleteResult>(completed)
            .map(|mut completed| {
                completed.result_type = Some(ResultType::COMPLETE);
                completed
            })
            .map_err(|error| ErrorData::internal_error(format!("The completion does not fit: {error}"), None))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // There a request says itself how much it wants to hear.
        if is_stateless(&context) {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "logging/setLevel", None));
        }
        *lock(&self.least) = levels::ours(request.level);
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let served = self.for_request(&context)?;
        self.subscribed.add(request.uri, &*served.host)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed.remove(&request.uri);
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(unread::refusal(request, is_stateless(&context)))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if let Ok(served) = self.served(&context.extensions, false) {
            let ended = self.shared.running.end_of(&context.extensions);
            let shown = *lock(&served.shown);
            listen::in_session(&served.host, context.peer, Arc::clone(&self.subscribed), shown, ended);
        }
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(listen::accepted(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let served = self.served(&context.request_context().extensions, true)?;
        let shown = *lock(&served.shown);
        tokio::select! {
            () = listen::in_request(&*served.host, shown, &context) => {}
            () = self.gone.cancelled() => {}
        }
        Ok(())
    }
}
