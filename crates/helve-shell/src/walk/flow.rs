//! What runs through the pipes between commands, and what feeds one.

use crate::analysis::Input;
use crate::expand::Text;

/// What flows out of a command, or into one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flow {
    /// The text, if it is known.
    pub(super) text: Option<Text>,
    /// Whether it may end before all of that text came.
    pub(super) early: bool,
    /// Whether it came from a network.
    pub(super) download: bool,
    /// Whether it is a list of paths none of which can be taken for an option.
    pub(super) paths: bool,
    /// Whether what is not known of it are digits, signs and blanks.
    pub(super) number: bool,
    /// The run that it comes from.
    pub(super) run: Option<usize>,
}

impl Flow {
    /// Whether all of it is certainly numbers.
    pub(super) fn is_number(&self) -> bool {
        self.has_numbers() && self.text.as_ref().is_none_or(Text::is_tame)
    }

    /// Whether all that is not known of it is certainly a number; what is known has to be looked at.
    pub(super) fn has_numbers(&self) -> bool {
        self.number || self.text.as_ref().is_some_and(|text| text.whole().is_some())
    }

    /// Adds what another command prints. Where the text is no longer known, all of it has to be numbers.
    pub(super) fn add(&mut self, other: &Flow) {
        let numbers = self.is_number() && other.is_number();
        self.number = self.has_numbers() && other.has_numbers();
        match (&mut self.text, &other.text) {
            (Some(text), Some(more)) => text.append(more),
            _ => {
                self.text = None;
                self.number = numbers;
            }
        }
        self.early |= other.early;
        self.download |= other.download;
        self.run = other.run;
    }

    /// Takes what another command prints for as likely.
    pub(super) fn or(&mut self, other: &Flow) {
        self.early |= other.early;
        self.download |= other.download;
        if self.text != other.text {
            self.forget_text();
            self.number &= other.is_number();
        }
    }

    pub(super) fn prints_nothing(&self) -> bool {
        self.text.as_ref().is_some_and(Text::is_empty)
    }

    /// The text is no longer known.
    pub(super) fn forget_text(&mut self) {
        self.number = self.is_number();
        self.text = None;
    }
}

/// Standard input of a command.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    pub(super) input: Input,
    pub(super) flow: Flow,
}

impl Feed {
    pub(super) fn inherited() -> Self {
        Feed { input: Input::Inherited, flow: Flow::default() }
    }
}
