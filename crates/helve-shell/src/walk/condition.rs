//! `[[ … ]]`: what its operands run.

use super::Walker;
use crate::expand::Text;
use crate::tree::Word;

impl Walker<'_> {
    /// `[[ … ]]`: operands are expanded; those of `-v` and of the comparisons of numbers are evaluated.
    pub(super) fn test(&mut self, words: &[Word]) {
        let texts: Vec<(Text, bool)> = words
            .iter()
            .map(|word| {
                self.wild = false;
                let text = self.expand_text(word);
                (text, self.wild)
            })
            .collect();
        for (index, (text, _)) in texts.iter().enumerate() {
            match text.whole() {
                Some("-v" | "-R") => {
                    if let Some((operand, wild)) = texts.get(index + 1) {
                        self.wild = *wild;
                        self.subscripted_text(operand);
                    }
                }
                Some("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge") if index > 0 => {
                    for (operand, wild) in [texts.get(index - 1), texts.get(index + 1)].into_iter().flatten()
                    {
                        self.wild = *wild;
                        self.evaluate(operand);
                    }
                }
                _ => {}
            }
        }
    }
}
