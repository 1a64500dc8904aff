//! Files with several names: what is edited in place is edited for all names, and nothing is written through a name that is
//! closed or that nobody found.

use pretty_assertions::assert_eq;

use super::*;

/// What a command did to a workspace whose files have several names, and what becomes of them.
struct Case {
    what: &'static str,
    /// The names of each file below; it holds the first of them.
    below: &'static [&'static [&'static str]],
    /// Files in the layer: the names, the text, the bits.
    above: &'static [(&'static [&'static str], &'static str, u32)],
    gone: &'static [&'static str],
    /// What files in the layer began as: a path there, a name below.
    began: &'static [(&'static str, &'static str)],
    /// Bits, number of names and text of each path afterwards.
    after: &'static [(&'static str, &'static str)],
    noted: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        what: "edited in place",
        below: &[&["a", "d/b", "c"]],
        above: &[(&["a"], "new", 0o644)],
        gone: &[],
        began: &[("a", "a")],
        after: &[("a", "644 3 new"), ("c", "644 3 new"), ("d/b", "644 3 new")],
        noted: &[],
    },
    Case {
        what: "bits through one name",
        below: &[&["a", "b"]],
        above: &[(&["b"], "a", 0o700)],
        gone: &[],
        began: &[("b", "b")],
        after: &[("a", "700 2 a"), ("b", "700 2 a")],
        noted: &[],
    },
    Case {
        what: "replaced",
        below: &[&["a", "b"]],
        above: &[(&["a"], "new", 0o644)],
        gone: &[],
        began: &[],
        after: &[("a", "644 1 new"), ("b", "644 1 a")],
        noted: &["a"],
    },
    Case {
        what: "replaced by the same",
        below: &[&["a", "b"]],
        above: &[(&["a"], "a", 0o644)],
        gone: &[],
        began: &[],
        after: &[("a", "644 1 a"), ("b", "644 1 a")],
        noted: &[],
    },
    Case {
        what: "replaced by the same with other bits",
        below: &[&["a", "b"]],
        above: &[(&["a"], "a", 0o600)],
        gone: &[],
        began: &[],
        after: &[("a", "600 1 a"), ("b", "644 1 a")],
        noted: &["a"],
    },
    Case {
        what: "moved",
        below: &[&["a", "b"]],
        above: &[(&["z"], "a", 0o644)],
        gone: &["a"],
        began: &[("z", "a")],
        after: &[("b", "644 2 a"), ("z", "644 2 a")],
        noted: &[],
    },
    Case {
        what: "moved onto another, and edited there",
        below: &[&["a", "b"], &["c", "d"]],
        above: &[(&["c"], "new", 0o644)],
        gone: &["a"],
        began: &[("c", "a")],
        after: &[("b", "644 2 new"), ("c", "644 2 new"), ("d", "644 1 c")],
        noted: &[],
    },
    Case {
        what: "moved, the other name removed",
        below: &[&["a", "b"]],
        above: &[(&["z"], "new", 0o644)],
        gone: &["a", "b"],
        began: &[("z", "a")],
        after: &[("z", "644 1 new")],
        noted: &[],
    },
    Case {
        what: "a new name, and an edit",
        below: &[&["a", "b"]],
        above: &[(&["a", "z"], "new", 0o600)],
        gone: &[],
        began: &[("a", "a"), ("z", "a")],
        after: &[("a", "600 3 new"), ("b", "600 3 new"), ("z", "600 3 new")],
        noted: &[],
    },
    Case {
        what: "a new name alone",
        below: &[&["a", "b"]],
        above: &[(&["a", "z"], "a", 0o644)],
        gone: &[],
        began: &[("a", "a"), ("z", "a")],
        after: &[("a", "644 3 a"), ("b", "644 3 a"), ("z", "644 3 a")],
        noted: &[],
    },
    Case {
        what: "two names used, one of them to edit",
        below: &[&["a", "b", "c"]],
        above: &[(&["a"], "new", 0o644), (&["b", "z"], "a", 0o644)],
        gone: &[],
        began: &[("a", "a"), ("b", "a"), ("z", "a")],
        after: &[("a", "644 4 new"), ("b", "644 4 new"), ("c", "644 4 new"), ("z", "644 4 new")],
        noted: &[],
    },
    Case {
        what: "edited apart",
        below: &[&["a", "b", "c"]],
        above: &[(&["a"], "one", 0o644), (&["b"], "two", 0o644)],
        gone: &[],
        began: &[("a", "a"), ("b", "a")],
        after: &[("a", "644 1 one"), ("b", "644 1 two"), ("c", "644 1 a")],
        noted: &["a", "b"],
    },
    Case {
        what: "edited, another name removed",
        below: &[&["a", "b", "c"]],
        above: &[(&["a"], "new", 0o644)],
        gone: &["b"],
        began: &[("a", "a")],
        after: &[("a", "644 2 new"), ("c", "644 2 new")],
        noted: &[],
    },
    Case {
        what: "one with another",
        below: &[&["a"], &["b"]],
        above: &[(&["a", "b"], "a", 0o644)],
        gone: &[],
        began: &[],
        after: &[("a", "644 2 a"), ("b", "644 2 a")],
        noted: &[],
    },
    Case {
        what: "a protected name",
        below: &[&["a", ".git/hooks/x"]],
        above: &[(&["a"], "new", 0o755)],
        gone: &[],
        began: &[("a", "a")],
        after: &[(".git/hooks/x", "644 1 a"), ("a", "755 1 new")],
        noted: &["a"],
    },
    Case {
        what: "bits alone, and a protected name",
        below: &[&["a", "sub/.VSCode/x"]],
        above: &[(&["a"], "a", 0o755)],
        gone: &[],
        began: &[("a", "a")],
        after: &[("a", "755 1 a"), ("sub/.VSCode/x", "644 1 a")],
        noted: &["a"],
    },
    Case {
        what: "moved, and a protected name is left",
        below: &[&["a", ".git/hooks/x"]],
        above: &[(&["z"], "a", 0o644)],
        gone: &["a"],
        began: &[("z", "a")],
        after: &[(".git/hooks/x", "644 1 a"), ("z", "644 1 a")],
        noted: &["z"],
    },
    Case {
        what: "a git directory of another name",
        below: &[&["a", "repo/config"], &["repo/HEAD"], &["repo/objects/x"], &["repo/refs/x"]],
        above: &[(&["a"], "new", 0o644)],
        gone: &[],
        began: &[("a", "a")],
        after: &[
            ("a", "644 1 new"),
            ("repo/HEAD", "644 1 repo/HEAD"),
            ("repo/config", "644 1 a"),
            ("repo/objects/x", "644 1 repo/objects/x"),
            ("repo/refs/x", "644 1 repo/refs/x"),
        ],
        noted: &["a"],
    },
    Case {
        what: "a name that commands may not read",
        below: &[&["a", "x/.env"]],
        above: &[(&["a"], "new", 0o644)],
        gone: &[],
        began: &[("a", "a")],
        after: &[("a", "644 1 new"), ("x/.env", "644 1 a")],
        noted: &["a"],
    },
    Case {
        what: "a place that commands may not write",
        below: &[&["a", "fixed/b"]],
        above: &[(&["a"], "new", 0o644)],
        gone: &[],
        began: &[("a", "a")],
        after: &[("a", "644 1 new"), ("fixed/b", "644 1 a")],
        noted: &["a"],
    },
];

impl Case {
    fn scene(&self) -> Scene {
        let scene = Scene::new();
        for names in self.below {
            scene.put_all("lower", names, names[0], 0o644);
        }
        for (names, text, mode) in self.above {
            scene.put_all("upper", names, text, *mode);
        }
        for path in self.gone {
            scene.whiteout(path);
        }
        scene
    }
}

impl Scene {
    fn put_all(&self, part: &str, names: &[&str], text: &str, mode: u32) {
        self.put(&format!("{part}/{}", names[0]), text, mode);
        for name in &names[1..] {
            let path = self.folder.path().join(part).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::hard_link(self.folder.path().join(part).join(names[0]), path).unwrap();
        }
    }

    /// Reads the layer with what its files began as, and a bound.
    fn read_links(&mut self, began: &[(&str, &str)], entries: usize) -> LayerRead {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let upper = rustix::fs::open(self.folder.path().join("upper"), flags, Mode::empty()).unwrap();
        let root = rustix::fs::open(self.lower(), flags, Mode::empty()).unwrap();
        let links = LayerLinks {
            seen: None,
            protected: PathRules::default().protected,
            deny_read: vec![".env".to_owned()],
            closed: vec!["fixed".into()],
        };
        let layer = Layer {
            parts: vec![LayerPart { path: PathBuf::new(), upper }],
            since: SystemTime::now() + Duration::from_secs(60),
            links,
        };
        let lower = self.lower();
        let began_as = |path: &str| {
            let (_, name) = began.iter().find(|(one, _)| *one == path)?;
            Some(fs::metadata(lower.join(name)).unwrap().ino())
        };
        let place = Place { root: root.as_fd(), links: &layer.links, began_as: Some(&began_as), entries };
        read_from(&place, &layer, &mut self.held, &Cancel::never()).unwrap()
    }

    /// Bits, number of names and text of every file.
    fn files(&mut self) -> BTreeMap<String, String> {
        self.tree().into_iter().filter(|(_, what)| !what.starts_with("directory")).collect()
    }
}

#[test]
fn a_file_with_several_names_is_what_a_direct_run_leaves() {
    for case in CASES {
        let mut scene = case.scene();
        let before = scene.tree();
        let read = scene.read_links(case.began, LINK_ENTRIES);
        assert_eq!(scene.tree(), before, "{}", case.what);
        scene.turn(turns(&read)).unwrap_or_else(|error| panic!("{}: {error:?}", case.what));
        let after: BTreeMap<String, String> =
            case.after.iter().map(|(path, what)| ((*path).to_owned(), (*what).to_owned())).collect();
        assert_eq!(scene.files(), after, "{}: {read:#?}", case.what);
        assert_eq!(read.linked, case.noted, "{}", case.what);
        // A second time there is nothing left to do.
        scene.turn(turns(&read)).unwrap();
        assert_eq!(scene.files(), after, "{}, twice", case.what);
    }
}

#[test]
fn a_name_that_is_not_found_keeps_what_it_held() {
    let case = &CASES[0];
    // One name lies outside, or beyond the bound.
    for outside in [true, false] {
        let mut scene = case.scene();
        if outside {
            fs::rename(scene.lower().join("d/b"), scene.folder.path().join("b")).unwrap();
        }
        let read = scene.read_links(case.began, if outside { LINK_ENTRIES } else { 1 });
        assert_eq!(read.linked, ["a"]);
        scene.turn(turns(&read)).unwrap();
        assert_eq!(scene.files()["a"], "644 1 new");
        assert_eq!(scene.files()["c"], "644 2 a");
    }
}

#[test]
fn names_that_came_apart_or_together_since_are_a_conflict() {
    for (disturb, named) in [("apart", "d/b"), ("more", "a"), ("content", "a")] {
        let mut scene = CASES[0].scene();
        let read = scene.read_links(CASES[0].began, LINK_ENTRIES);
        let lower = scene.lower();
        match disturb {
            "apart" => {
                fs::remove_file(lower.join("d/b")).unwrap();
                scene.put("lower/d/b", "a", 0o644);
            }
            "more" => fs::hard_link(lower.join("c"), lower.join("d/more")).unwrap(),
            _ => fs::write(lower.join("c"), "mine").unwrap(),
        }
        let before = scene.tree();
        let error = scene.turn(turns(&read)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict, "{disturb}");
        assert!(error.message.contains(named), "{disturb}: {error:?}");
        assert_eq!(scene.tree(), before, "{disturb}");
    }
}
