//! Builtins that are given a command for later: a completion, a key, a program under another name.

use crate::analysis::{Arg, OpaqueReason};
use crate::expand::Text;

use super::Walker;
use super::reading::Options;

impl Walker<'_> {
    /// `complete` and `compgen`: a command or a function that makes words, or text that is expanded to them.
    pub(super) fn completes(&mut self, args: &[Arg]) {
        let options = Options::of(args, "oAGWFCXPS");
        if let Some(command) = options.value('C') {
            self.handler(command);
        }
        if let Some(words) = options.value('W') {
            match words.text() {
                Some(text) => {
                    let text = text.to_owned();
                    self.double_quoted(&text);
                }
                None => self.opaque(OpaqueReason::UnknownText),
            }
        }
        if let Some(function) = options.value('F') {
            self.handler(function);
        }
    }

    /// `bind -x '"key": command'`, or a file of such lines.
    pub(super) fn binds(&mut self, args: &[Arg]) {
        let options = Options::of(args, "mqurfx");
        if let Some(binding) = options.value('x') {
            let command =
                binding.text().and_then(|text| text.split_once(':')).map(|(_, command)| command.trim());
            match command {
                Some(command) => {
                    let command =
                        command.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(command);
                    let command = Arg::known(command, binding.span);
                    self.handler(&command);
                }
                None => self.opaque(OpaqueReason::UnknownText),
            }
        }
        if options.has('f') {
            self.opaque(OpaqueReason::UnknownText);
        }
    }

    /// `hash -p PATH NAME`: the name stands for that program from now on.
    pub(super) fn hashes(&mut self, args: &[Arg]) {
        let options = Options::of(args, "p");
        let Some(path) = options.value('p').cloned() else { return };
        let program = path.text().map(|path| Text::known(crate::quote(path)));
        for name in options.names.iter().filter_map(|name| name.text()) {
            self.environment.define_alias(name, Some(program.clone().unwrap_or_else(Text::unknown)));
        }
    }

    /// A command that may run at any time from now on.
    pub(super) fn handler(&mut self, command: &Arg) {
        self.opaque(OpaqueReason::UnknownText);
        let mark = self.environment.mark();
        self.shell_text(command);
        self.environment.blur_since(mark);
    }
}
