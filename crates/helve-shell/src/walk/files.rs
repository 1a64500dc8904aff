//! Files that the script itself writes with text that is known, so that running one of them hides nothing.

use std::path::PathBuf;

use crate::Span;
use crate::analysis::{Arg, Target};
use crate::expand::Text;

use super::{Feed, Walker, names, places};

/// So many files are remembered.
const MAX_FILES: usize = 64;

/// A file with the text that was written to it, and by which command.
#[derive(Debug, Clone)]
pub(super) struct Written {
    text: Text,
    span: Span,
}

impl Walker<'_> {
    /// Remembers what was written to a file; none for text that is not known.
    pub(super) fn wrote(&mut self, path: &PathBuf, text: Option<&Text>, appends: bool) {
        let Some(text) = text.filter(|text| text.whole().is_some()) else {
            self.written.remove(path);
            return;
        };
        let room = self.written.len() < MAX_FILES;
        match self.written.get_mut(path) {
            Some(written) if appends => {
                written.text.append(text);
                written.span = written.span.to(self.current);
            }
            Some(written) => *written = Written { text: text.clone(), span: self.current },
            // What was in the file before is not known where text is added to it.
            None if appends || !room => {}
            None => {
                self.written.insert(path.clone(), Written { text: text.clone(), span: self.current });
            }
        }
    }

    /// The file that a shell reads when it starts, which a variable names.
    pub(super) fn read_at_start(&mut self, file: &Arg, shell: &str, run: Option<usize>) {
        if self.names_download(file) {
            self.runs_download(run);
        }
        match self.process_of(file) {
            Some(flow) => {
                if flow.download {
                    self.runs_download(run);
                }
                let text = flow.text.map(|text| text.into_arg(file.span));
                text.iter()
                    .for_each(|text| drop(self.shell_script(text, shell, &[], false, &Feed::inherited())));
            }
            None => {
                for target in self.targets(file, 0, false) {
                    self.follow_file(&target, shell, &[]);
                }
            }
        }
    }

    /// A program of the system under another name: running the copy or the link runs it.
    pub(super) fn renamed(&mut self, program: &str, args: &[Arg]) {
        if !matches!(program, "cp" | "ln" | "install" | "mv") {
            return;
        }
        let operands: Vec<&Arg> = args.iter().filter(|arg| !arg.prefix().starts_with('-')).collect();
        let [from, to] = operands.as_slice() else { return };
        let Some(source) = from.text().filter(|source| places::is_system_program(source)) else { return };
        let text = Text::known(format!("exec {} \"$@\"", crate::quote(source)));
        for target in self.targets(to, 0, true) {
            if let Target::Path { path, .. } = target {
                let inside = source.rsplit('/').next().map(|name| path.join(name));
                self.wrote(&path, Some(&text), false);
                inside.iter().for_each(|path| self.wrote(path, Some(&text), false));
            }
        }
    }

    /// The text of a file that the script wrote before.
    pub(super) fn written_text(&self, target: &Target) -> Option<Arg> {
        let Target::Path { path, .. } = target else { return None };
        let written = self.written.get(path)?;
        Some(written.text.clone().into_arg(written.span))
    }

    /// Follows a file that is run, if its text is known and a shell reads it.
    pub(super) fn follow_file(&mut self, target: &Target, program: &str, parameters: &[Arg]) {
        let Some(text) = self.written_text(target) else { return };
        let first = text.text().and_then(|text| text.lines().next()).unwrap_or_default();
        let shell = match first.strip_prefix("#!") {
            _ if names::is_shell(program) => program,
            Some(interpreter) => {
                let mut words = interpreter.split_ascii_whitespace();
                let name =
                    |word: &'static str, path: &str| (path.rsplit('/').next() == Some(word)).then_some(word);
                let path = words.next().unwrap_or_default();
                let path = if path.ends_with("/env") { words.next().unwrap_or_default() } else { path };
                match name("sh", path).or_else(|| name("bash", path)).or_else(|| name("dash", path)) {
                    Some(shell) => shell,
                    None => return,
                }
            }
            None => "sh",
        };
        self.shell_script(&text, shell, parameters, false, &Feed::inherited());
    }
}
