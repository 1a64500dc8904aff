use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

const SORT: Grammar = Grammar {
    flags: "bdfgirs",
    values: "kotST",
    optional: "i",
    long: &[
        ("compress-program", Takes::Value),
        ("check", Takes::Optional),
        ("reverse", Takes::Nothing),
        ("random-sort", Takes::Nothing),
        ("random-source", Takes::Value),
    ],
    numbers: true,
    ..Grammar::NONE
};
const FIRST: Grammar = Grammar { order: Order::First, ..SORT };

const NOWHERE: Span = Span { start: 0, end: 0 };

fn known(texts: &[&str]) -> Vec<Arg> {
    texts.iter().map(|text| Arg::known(*text, NOWHERE)).collect()
}

fn arg(parts: Vec<ArgPart>, splits: bool) -> Arg {
    Arg { parts, span: NOWHERE, splits }
}

fn text(text: &str) -> ArgPart {
    ArgPart::Known(text.to_owned())
}

fn value(name: &'static str, option: usize, arg: usize, skip: usize) -> Item {
    Item::Value(name, Place { option, arg, skip })
}

#[test]
fn clusters_and_attached_values() {
    let args = known(&["-rfk2,2n", "-t", ":", "-S1K", "-i", "-20r", "-"]);
    assert_eq!(
        read(&args, &SORT),
        [
            Item::Flag("r", 0),
            Item::Flag("f", 0),
            value("k", 0, 0, 4),
            value("t", 1, 2, 0),
            value("S", 3, 3, 2),
            Item::Flag("i", 4),
            Item::Flag("#", 5),
            Item::Flag("r", 5),
            Item::Operand(6),
        ]
    );
}

#[test]
fn a_letter_counts_once_in_a_cluster() {
    let args = known(&["-rrrfr"]);
    assert_eq!(read(&args, &SORT), [Item::Flag("r", 0), Item::Flag("f", 0)]);
}

#[test]
fn long_options_and_their_abbreviations() {
    let args = known(&[
        "--compress-prog=x",
        "--comp",
        "y",
        "--ch",
        "--check=quiet",
        "--random",
        "--rev",
        "--reverse=1",
    ]);
    assert_eq!(
        read(&args, &SORT),
        [
            value("compress-program", 0, 0, 16),
            value("compress-program", 1, 2, 0),
            Item::Flag("check", 3),
            value("check", 4, 4, 8),
            Item::Unknown(5),
            Item::Flag("reverse", 6),
            Item::Unknown(7),
        ]
    );
    let place = Place { option: 0, arg: 0, skip: 16 };
    assert_eq!(place.text(&args), Some("x"));
    assert_eq!(place.on(&args), On::Tail(0, 16));
}

#[test]
fn lists_that_programs_share_count_as_one() {
    const SHARED: &str = "reverse output= color?";
    let grammar = Grammar { names: &[SHARED, SHARED], ..SORT };
    let args = known(&["--outp=x", "--help", "--color", "--col=x", "--rev", "--r"]);
    assert_eq!(
        read(&args, &grammar),
        [
            value("output", 0, 0, 7),
            Item::Flag("help", 1),
            Item::Flag("color", 2),
            value("color", 3, 3, 6),
            Item::Flag("reverse", 4),
            Item::Unknown(5)
        ]
    );
    assert_eq!(read_from(&args, 4, &grammar), [Item::Flag("reverse", 4), Item::Unknown(5)]);
}

#[test]
fn many_options_are_found_as_few_are() {
    let names =
        ["--comp=x", "--random", "--rev", "--check", "--c", "--compress-program=y", "--", "--bogus", "--h"];
    for name in names {
        let mut args = known(&[name]);
        let few = read(&args, &SORT);
        for _ in 0..=FEW_LOOKUPS {
            args.insert(0, Arg::known("--reverse", NOWHERE));
        }
        let many = read(&args, &SORT);
        let kind = |item: Option<&Item>| match item {
            Some(Item::Value(name, _) | Item::Flag(name, _)) => (*name).to_owned(),
            Some(Item::Unknown(_)) => "unknown".to_owned(),
            Some(Item::End(_)) => "end".to_owned(),
            other => panic!("{name} is {other:?}"),
        };
        assert_eq!(kind(few.last()), kind(many.last()), "{name}");
    }
}

#[test]
fn options_stand_anywhere_or_only_in_front() {
    let args = known(&["a", "-r", "--", "-o", "b"]);
    assert_eq!(
        read(&args, &SORT),
        [Item::Operand(0), Item::Flag("r", 1), Item::End(2), Item::Operand(3), Item::Operand(4)]
    );
    assert_eq!(read(&args, &FIRST), (0..5).map(Item::Operand).collect::<Vec<_>>());
    let args = known(&["-r", "--", "-o"]);
    assert_eq!(read(&args, &FIRST), [Item::Flag("r", 0), Item::End(1), Item::Operand(2)]);
}

#[test]
fn a_missing_value_points_past_the_end() {
    let args = known(&["-o"]);
    assert_eq!(read(&args, &SORT), [value("o", 0, 1, 0)]);
    let place = Place { option: 0, arg: 1, skip: 0 };
    assert_eq!((place.text(&args), place.value(&args)), (None, None));
    assert_eq!(place.on(&args), On::Unknown(Some(0)));
}

#[test]
fn single_dash_long_options_come_before_clusters() {
    let grammar = Grammar { single_dash: true, ..SORT };
    let args = known(&["-reverse", "-compress-program", "x", "-rf", "-compress"]);
    assert_eq!(
        read(&args, &grammar),
        [
            Item::Flag("reverse", 0),
            value("compress-program", 1, 2, 0),
            Item::Flag("r", 3),
            Item::Flag("f", 3),
            Item::Unknown(4),
        ]
    );
}

#[test]
fn partly_known_arguments_are_read_as_far_as_they_reach() {
    let args = vec![
        arg(vec![text("-o"), ArgPart::Unknown], false),
        arg(vec![text("--compress-program="), ArgPart::Unknown], false),
        arg(vec![text("-r"), ArgPart::Unknown], false),
        arg(vec![text("--re"), ArgPart::Unknown], false),
        arg(vec![ArgPart::Unknown], false),
        arg(vec![text("a"), ArgPart::Unknown], false),
        arg(vec![text("a"), ArgPart::Unknown], true),
        arg(vec![ArgPart::Glob("*.rs".into())], true),
        arg(vec![text("src/"), ArgPart::Glob("*.rs".into())], true),
        arg(vec![ArgPart::Glob("--compress-program=*".into())], true),
    ];
    assert_eq!(
        read(&args, &SORT),
        [
            value("o", 0, 0, 2),
            value("compress-program", 1, 1, 19),
            Item::Flag("r", 2),
            Item::Open(2),
            Item::Open(3),
            Item::Maybe(4),
            Item::Operand(5),
            Item::Maybe(6),
            Item::Maybe(7),
            Item::Operand(8),
            value("compress-program", 9, 9, 19),
        ]
    );
    assert_eq!(
        tail(&args[1], 19),
        arg(vec![ArgPart::Unknown], false),
        "the value of a partly known option is what is left"
    );
}

#[test]
fn a_value_that_splits_may_bring_options_along() {
    let args = vec![Arg::known("-k", NOWHERE), Arg::unknown(NOWHERE), Arg::known("file", NOWHERE)];
    assert_eq!(read(&args, &SORT), [value("k", 0, 1, 0), Item::Open(1), Item::Operand(2)]);
}

#[test]
fn nothing_behind_an_unknown_argument_is_an_option_where_options_come_first() {
    let args = vec![Arg::unknown(NOWHERE), Arg::known("-r", NOWHERE)];
    assert_eq!(read(&args, &FIRST), [Item::Maybe(0), Item::Operand(1)]);
}

#[test]
fn the_span_of_a_bare_value_is_its_own() {
    let bare = Arg::known("--file=x", Span { start: 10, end: 18 });
    assert_eq!(tail(&bare, 7), Arg::known("x", Span { start: 17, end: 18 }));
    let quoted = Arg::known("--file=x", Span { start: 10, end: 20 });
    assert_eq!(tail(&quoted, 7), Arg::known("x", Span { start: 10, end: 20 }));
}

fn any_arg() -> impl Strategy<Value = Arg> {
    let part = prop_oneof![
        "[-a-z=é*]{0,6}".prop_map(ArgPart::Known),
        "[-a-z=é*?]{0,6}".prop_map(ArgPart::Glob),
        Just(ArgPart::Unknown),
    ];
    (proptest::collection::vec(part, 0..4), any::<bool>()).prop_map(|(parts, splits)| arg(parts, splits))
}

proptest! {
    #[test]
    fn every_argument_is_accounted_for(args in proptest::collection::vec(any_arg(), 0..8), first: bool, single_dash: bool) {
        let order = if first { Order::First } else { Order::Mixed };
        let items = read(&args, &Grammar { order, single_dash, ..SORT });
        let mut seen = vec![false; args.len() + 1];
        for item in items {
            match item {
                Item::Flag(_, at) | Item::Operand(at) | Item::End(at) | Item::Unknown(at) | Item::Maybe(at) | Item::Open(at) | Item::Stray(at) => seen[at] = true,
                Item::Value(_, place) => {
                    seen[place.option] = true;
                    seen[place.arg] = true;
                    let _ = (place.text(&args), place.prefix(&args), place.value(&args));
                }
            }
        }
        prop_assert!(args.is_empty() || seen[..args.len()].iter().all(|seen| *seen));
    }
}
