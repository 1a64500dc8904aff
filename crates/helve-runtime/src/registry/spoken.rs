//! One tool of the dialect that calls come in: its declaration there, and the way to ours.

use std::sync::{Arc, OnceLock};

use helve_core::{Args, DialectTool, Limits, ToolError, ToolSpec};
use serde_json::Value;

use super::{Entry, schema_rules};
use crate::pipeline::validate::Validator;

pub(crate) struct Spoken {
    entry: Arc<Entry>,
    tool: DialectTool,
    spec: ToolSpec,
    arguments: Validator,
    shown: OnceLock<Arc<ToolSpec>>,
}

impl Spoken {
    /// None where we have no such tool, where its schema in the dialect is broken, or where it has parameters that must not
    /// be shown: they are known by their own names only.
    pub(super) fn new<'e>(
        tool: DialectTool,
        ours: impl FnOnce(&str) -> Option<&'e Arc<Entry>>,
    ) -> Option<Spoken> {
        let entry = Arc::clone(ours(tool.tool)?);
        let spec = tool.spec(entry.spec());
        if !spec.sensitive.is_empty() || !schema_rules::check(&spec.parameters).is_empty() {
            return None;
        }
        let arguments = Validator::new(spec.parameters.clone());
        Some(Spoken { entry, tool, spec, arguments, shown: OnceLock::new() })
    }

    /// Our tool.
    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// The declaration in the dialect.
    pub(crate) fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// The same for whoever may keep it longer than the registry keeps the tool.
    pub(super) fn shown(&self) -> Arc<ToolSpec> {
        Arc::clone(self.shown.get_or_init(|| Arc::new(self.spec.clone())))
    }

    /// Our arguments for a call in the dialect, checked against its declaration there, and what was repaired.
    pub(crate) fn translate(&self, args: &Args, limits: &Limits) -> Result<(Value, Vec<String>), ToolError> {
        use crate::pipeline::{normalize, validate};
        let theirs = normalize::normalize(&self.spec.name, &self.arguments, args, limits)?;
        validate::validate(&self.spec.name, &self.arguments, &theirs.args)?;
        Ok((self.tool.translate(theirs.args), theirs.notes))
    }

    /// What is wrong with our arguments, in the words of the dialect.
    pub(crate) fn retell(&self, error: ToolError) -> ToolError {
        self.tool.retell(error)
    }
}
