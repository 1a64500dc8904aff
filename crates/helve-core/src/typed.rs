//! Typed arguments: a struct with serde and schemars derives is all that an author writes.

use std::future::Future;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::RestrictFormats;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::access::Access;
use crate::context::Context;
use crate::error::{ErrorKind, ToolError};
use crate::lane::BoxFuture;
use crate::output::Output;
use crate::spec::{ApprovalNeed, ToolSpec};
use crate::tool::{InstantTool, Tool};

/// A tool whose arguments are a Rust type. [`typed`] turns it into a [`Tool`].
///
/// ```
/// use helve_core::{Context, Output, ToolError, ToolSpec, TypedTool, typed, Tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Args {
///     /// Whom to greet.
///     name: String,
/// }
/// struct Greet;
/// impl TypedTool for Greet {
///     type Args = Args;
///     fn declare(&self, parameters: serde_json::Value) -> ToolSpec {
///         ToolSpec::new("greet", "Greets somebody.", parameters).read_only()
///     }
///     async fn run(&self, args: Args, _ctx: &Context) -> Result<Output, ToolError> {
///         Ok(Output::text(format!("Hello, {}!", args.name)))
///     }
/// }
/// let tool = typed(Greet);
/// assert_eq!(tool.spec().parameters["properties"]["name"]["description"], "Whom to greet.");
/// ```
pub trait TypedTool: Sized + Send + Sync + 'static {
    /// The arguments.
    type Args: DeserializeOwned + JsonSchema + Send;

    /// Makes the declaration around the schema that was derived from [`Self::Args`].
    fn declare(&self, parameters: Value) -> ToolSpec;

    /// When a person has to agree; by default what the spec says.
    fn approval(&self, _args: &Self::Args) -> Option<ApprovalNeed> {
        None
    }

    /// What the call touches.
    fn access(&self, _args: &Self::Args) -> Access {
        Access::default()
    }

    /// Does the work.
    fn run(&self, args: Self::Args, ctx: &Context) -> impl Future<Output = Result<Output, ToolError>> + Send;
}

/// A tool whose arguments are a Rust type, and whose work is a short computation: it touches nothing, waits for nobody and needs
/// no handle. So there is nothing to be asked of its arguments before it runs. [`instant`] turns it into a [`Tool`].
pub trait TypedInstantTool: Sized + Send + Sync + 'static {
    /// The arguments.
    type Args: DeserializeOwned + JsonSchema + Send;

    /// Makes the declaration around the schema that was derived from [`Self::Args`].
    fn declare(&self, parameters: Value) -> ToolSpec;

    /// Does the work.
    fn answer(&self, args: Self::Args) -> Result<Output, ToolError>;
}

struct Typed<T> {
    tool: T,
    spec: ToolSpec,
}

/// Turns a typed tool into a [`Tool`].
pub fn typed<T: TypedTool>(tool: T) -> impl Tool {
    let spec = tool.declare(parameters_of::<T::Args>());
    Typed { tool, spec }
}

struct TypedInstant<T> {
    tool: T,
    spec: ToolSpec,
}

/// Turns a typed tool that is done at once into a [`Tool`].
pub fn instant<T: TypedInstantTool>(tool: T) -> impl Tool {
    let spec = tool.declare(parameters_of::<T::Args>());
    TypedInstant { tool, spec }
}

/// The schema of arguments, as a tool declares it.
fn parameters_of<A: JsonSchema>() -> Value {
    let mut parameters = schema_of::<A>();
    absent_is_null(&mut parameters);
    parameters
}

/// For a Rust type `null` and absence are the same, so a property that may be absent need not say `null`: a model sees a
/// plainer schema, and normalize takes a `null` out.
fn absent_is_null(schema: &mut Value) {
    let required: Vec<Value> = schema["required"].as_array().cloned().unwrap_or_default();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        absent_is_null(property);
        let Some(property) = property.as_object_mut().filter(|_| !required.iter().any(|key| key == name))
        else {
            continue;
        };
        property.retain(|key, value| key != "default" || !value.is_null());
        if let Some(Value::Array(types)) = property.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = &types[..] {
                let only = only.clone();
                property.insert("type".into(), only);
            }
        }
        if let Some(Value::Array(options)) = property.get_mut("enum") {
            options.retain(|option| !option.is_null());
        }
        if let Some(Value::Array(variants)) = property.get_mut("anyOf") {
            variants.retain(|variant| variant["type"] != "null");
            if let [Value::Object(only)] = &variants[..] {
                let only = only.clone();
                property.remove("anyOf");
                property.extend(only);
            }
        }
    }
    if let Some(items) = schema.get_mut("items") {
        absent_is_null(items);
    }
}

/// The JSON Schema of a type, with subschemas inlined so that every model API can read it, and without formats that the
/// standard does not know, such as `uint32`.
pub fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    let settings = settings.with_transform(RestrictFormats::default());
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    if let Some(object) = schema.as_object_mut() {
        // It tells which formats are known, and is the same for all tools.
        object.remove("$schema");
        object.remove("title");
        object.remove("description");
        object.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
        object.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    schema
}

fn parse<'v, A: DeserializeOwned>(
    args: impl serde::Deserializer<'v, Error = serde_json::Error>,
) -> Result<A, ToolError> {
    A::deserialize(args).map_err(|error| {
        ToolError::new(
            ErrorKind::InvalidParams,
            format!("The arguments fit the schema but not the tool: {error}"),
        )
    })
}

impl<T: TypedTool> Tool for Typed<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn approval(&self, args: &Value) -> ApprovalNeed {
        let need = parse(args).ok().and_then(|args| self.tool.approval(&args));
        need.unwrap_or(self.spec.approval)
    }

    fn access(&self, args: &Value) -> Access {
        parse(args).map(|args| self.tool.access(&args)).unwrap_or_default()
    }

    fn plans(&self, args: &Value) -> (Access, ApprovalNeed) {
        match parse(args) {
            Ok(args) => (self.tool.access(&args), self.tool.approval(&args).unwrap_or(self.spec.approval)),
            Err(_) => (Access::default(), self.spec.approval),
        }
    }

    fn run<'a>(&'a self, args: Value, ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move { self.tool.run(parse(args)?, ctx).await })
    }
}

impl<T: TypedInstantTool> Tool for TypedInstant<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn instant(&self) -> Option<&dyn InstantTool> {
        Some(self)
    }

    fn run<'a>(&'a self, args: Value, _ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move { self.now(args) })
    }
}

impl<T: TypedInstantTool> InstantTool for TypedInstant<T> {
    fn now(&self, args: Value) -> Result<Output, ToolError> {
        self.tool.answer(parse(args)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[derive(serde::Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Args {
        must: Option<String>,
        count: Option<u8>,
        #[serde(default)]
        mode: Option<Mode>,
        inner: Vec<Inner>,
    }

    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Mode {
        Fast,
    }

    #[derive(serde::Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Inner {
        note: Option<String>,
    }

    #[derive(serde::Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Formats {
        format: Vec<u32>,
        share: Option<f64>,
        address: std::net::Ipv4Addr,
    }

    #[test]
    fn only_formats_of_the_standard_are_named() {
        assert_eq!(
            schema_of::<Formats>(),
            json!({
                "type": "object",
                "properties": {
                    "format": {"type": "array", "items": {"type": "integer", "minimum": 0}},
                    "share": {"type": ["number", "null"]},
                    "address": {"type": "string", "format": "ipv4"},
                },
                "required": ["format", "address"],
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn an_optional_parameter_does_not_say_null() {
        let mut schema = schema_of::<Args>();
        schema["required"] = json!(["must", "inner"]);
        absent_is_null(&mut schema);
        let properties = &schema["properties"];
        assert_eq!(properties["must"]["type"], json!(["string", "null"]), "required: null is a value");
        assert_eq!(properties["count"]["type"], "integer");
        assert_eq!(properties["mode"], json!({"type": "string", "enum": ["fast"]}));
        assert_eq!(properties["inner"]["items"]["properties"]["note"]["type"], "string");
    }
}
