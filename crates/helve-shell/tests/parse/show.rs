//! A tree as one line of text, for the case files.
//!
//! A simple command is `[words]`, a script `a; b & c`, joined as in the shell. Blanks and newlines inside a word are written
//! `␣` and `⏎`.

use helve_shell::tree::{
    AssignedValue, Assignment, Command, CommandKind, Descriptor, Joint, Operation, Parameter, Piece,
    PieceKind, Pipeline, Redirect, RedirectOperator, RedirectTarget, Replaced, Script, Simple, Statement,
    Word,
};

pub(crate) fn script(script: &Script) -> String {
    let fault = script.fault.map(|fault| format!(" !{:?}", fault.reason)).unwrap_or_default();
    statements(&script.statements) + &fault
}

fn statements(list: &[Statement]) -> String {
    let mut shown = String::new();
    for (index, statement) in list.iter().enumerate() {
        for (joint, line) in &statement.pipelines {
            shown.push_str(match joint {
                Joint::First if index == 0 => "",
                Joint::First => " ",
                Joint::And => " && ",
                Joint::Or => " || ",
            });
            shown.push_str(&pipeline(line));
        }
        if statement.background {
            shown.push_str(" &");
        } else if index + 1 < list.len() {
            shown.push(';');
        }
    }
    shown
}

fn pipeline(pipeline: &Pipeline) -> String {
    let mut shown = String::new();
    shown.push_str(if pipeline.timed { "time " } else { "" });
    shown.push_str(if pipeline.negated { "! " } else { "" });
    for (index, part) in pipeline.commands.iter().enumerate() {
        shown.push_str(&command(part));
        if index + 1 < pipeline.commands.len() {
            shown.push_str(if part.pipes_errors { " |& " } else { " | " });
        }
    }
    shown
}

fn command(command: &Command) -> String {
    let mut shown = kind(&command.kind);
    if let CommandKind::Simple(_) = command.kind {
        shown.pop();
        for redirect in &command.redirects {
            shown.push_str(if shown.ends_with('[') { "" } else { " " });
            shown.push_str(&show_redirect(redirect));
        }
        shown.push(']');
    } else {
        for redirect in &command.redirects {
            shown.push(' ');
            shown.push_str(&show_redirect(redirect));
        }
    }
    shown
}

fn kind(kind: &CommandKind) -> String {
    match kind {
        CommandKind::Simple(parts) => simple(parts),
        CommandKind::Subshell(body) => format!("({})", statements(body)),
        CommandKind::Group(body) => format!("{{{}}}", statements(body)),
        CommandKind::If { branches, otherwise } => {
            let mut shown: Vec<String> = branches
                .iter()
                .map(|(condition, body)| format!("{} -> {}", statements(condition), statements(body)))
                .collect();
            if !otherwise.is_empty() {
                shown.push(statements(otherwise));
            }
            format!("if({})", shown.join(" / "))
        }
        CommandKind::Loop { condition, body } => {
            format!("loop({} -> {})", statements(condition), statements(body))
        }
        CommandKind::For { name, words: None, body } => format!("for({name} -> {})", statements(body)),
        CommandKind::For { name, words: Some(list), body } => {
            format!("for({name} in {} -> {})", words(list), statements(body))
        }
        CommandKind::ArithmeticFor { header, body } => {
            format!("for(({}) -> {})", word(header), statements(body))
        }
        CommandKind::Case { subject, branches } => {
            let shown: Vec<String> = branches
                .iter()
                .map(|(patterns, body)| format!("{} -> {}", words(patterns), statements(body)))
                .collect();
            format!("case({}: {})", word(subject), shown.join(" / "))
        }
        CommandKind::Function { name, body } => format!("fn({name} -> {})", command(body)),
        CommandKind::Test(list) => format!("[[{}]]", words(list)),
        CommandKind::Arithmetic(expression) => format!("(({}))", word(expression)),
        CommandKind::Coproc(body) => format!("coproc({})", command(body)),
    }
}

fn simple(simple: &Simple) -> String {
    let mut parts: Vec<String> = simple.assignments.iter().map(assignment).collect();
    parts.extend(simple.words.iter().map(word));
    format!("[{}]", parts.join(" "))
}

fn assignment(assignment: &Assignment) -> String {
    let subscript = assignment.subscript.as_ref().map(|sub| format!("[{}]", word(sub))).unwrap_or_default();
    let sign = if assignment.append { "+:=" } else { ":=" };
    let value = match &assignment.value {
        AssignedValue::Word(value) => word(value),
        AssignedValue::Array(elements) => format!("({})", words(elements)),
    };
    format!("{}{subscript}{sign}{value}", assignment.name)
}

fn show_redirect(redirect: &Redirect) -> String {
    let descriptor = match &redirect.descriptor {
        None => String::new(),
        Some(Descriptor::Number(number)) => number.to_string(),
        Some(Descriptor::Name(name)) => format!("{{{name}}}"),
    };
    let operator = match redirect.operator {
        RedirectOperator::Read => "<",
        RedirectOperator::Write => ">",
        RedirectOperator::Clobber => ">|",
        RedirectOperator::Append => ">>",
        RedirectOperator::ReadWrite => "<>",
        RedirectOperator::DuplicateIn => "<&",
        RedirectOperator::DuplicateOut => ">&",
        RedirectOperator::WriteBoth => "&>",
        RedirectOperator::AppendBoth => "&>>",
        RedirectOperator::HereString => "<<<",
        RedirectOperator::HereDocument => "<<",
    };
    let target = match &redirect.target {
        RedirectTarget::Word(target) => word(target),
        RedirectTarget::HereDocument { body, quoted: true } => word(body),
        RedirectTarget::HereDocument { body, quoted: false } => format!("\"{}\"", word(body)),
    };
    format!("{descriptor}{operator}{target}")
}

fn words(list: &[Word]) -> String {
    list.iter().map(word).collect::<Vec<String>>().join(" ")
}

pub(crate) fn word(word: &Word) -> String {
    pieces(&word.pieces)
}

fn pieces(pieces: &[Piece]) -> String {
    pieces.iter().map(piece).collect()
}

fn visible(text: &str) -> String {
    text.replace(' ', "␣").replace('\n', "⏎")
}

fn piece(piece: &Piece) -> String {
    match &piece.kind {
        PieceKind::Text(text) => visible(text),
        PieceKind::Escaped(ch) => format!("\\{}", visible(&ch.to_string())),
        PieceKind::Single(text) => format!("'{}'", visible(text)),
        PieceKind::Double(inside) => format!("\"{}\"", pieces(inside)),
        PieceKind::Parameter(inside) => parameter(inside),
        PieceKind::Command(inside) => format!("$({})", script(inside)),
        PieceKind::Arithmetic(inside) => format!("$(({}))", word(inside)),
        PieceKind::ProcessIn(inside) => format!("<({})", script(inside)),
        PieceKind::ProcessOut(inside) => format!(">({})", script(inside)),
    }
}

fn parameter(parameter: &Parameter) -> String {
    let indirect = if parameter.indirect { "!" } else { "" };
    let subscript = parameter.subscript.as_ref().map(|sub| format!("[{}]", word(sub))).unwrap_or_default();
    let colon = |colon: bool| if colon { ":" } else { "" };
    let operation = match &parameter.operation {
        Operation::Value => String::new(),
        Operation::Length => " length".to_owned(),
        Operation::Default { colon: set, word: operand } => format!(" {}-{}", colon(*set), word(operand)),
        Operation::Assign { colon: set, word: operand } => format!(" {}={}", colon(*set), word(operand)),
        Operation::Alternative { colon: set, word: operand } => format!(" {}+{}", colon(*set), word(operand)),
        Operation::Error { colon: set, word: operand } => format!(" {}?{}", colon(*set), word(operand)),
        Operation::RemovePrefix { longest, pattern } => {
            format!(" {}{}", if *longest { "##" } else { "#" }, word(pattern))
        }
        Operation::RemoveSuffix { longest, pattern } => {
            format!(" {}{}", if *longest { "%%" } else { "%" }, word(pattern))
        }
        Operation::Replace { which, pattern, with } => {
            let which = match which {
                Replaced::First => "first",
                Replaced::All => "all",
                Replaced::Start => "start",
                Replaced::End => "end",
            };
            format!(" {which} {} by {}", word(pattern), word(with))
        }
        Operation::Substring { offset, length } => {
            let length = length.as_ref().map(|length| format!(" for {}", word(length))).unwrap_or_default();
            format!(" from {}{length}", word(offset))
        }
        Operation::ChangeCase { to, all, pattern } => {
            format!(" case {to}{} {}", if *all { "all" } else { "first" }, word(pattern))
        }
        Operation::Transform(letter) => format!(" @{letter}"),
        Operation::Names => " names".to_owned(),
    };
    format!("${{{indirect}{}{subscript}{operation}}}", parameter.name)
}
