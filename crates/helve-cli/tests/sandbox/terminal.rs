//! On a terminal: job control, sizes, and a terminal that is as before when it is over.

use super::backends;
use crate::support::Place;
use crate::tmux::Screen;

const SIZE: (u16, u16) = (80, 24);

fn shell(place: &Place, backend: &str) -> Option<Screen> {
    let arguments = format!("sandbox --backend {backend} --env PS1='in> ' -- bash --norc --noprofile -i");
    let screen = Screen::start(place, &arguments, SIZE)?;
    screen.wait_for("in>");
    Some(screen)
}

#[test]
fn a_shell_inside_has_job_control() {
    for backend in backends() {
        let place = Place::new();
        let Some(screen) = shell(&place, backend) else { return };
        screen.keys("sleep 101\n");
        screen.key("C-z");
        screen.wait_for("Stopped");
        screen.keys("bg\n");
        screen.wait_for("sleep 101 &");
        screen.keys("fg\n");
        screen.key("C-c");
        screen.keys("echo code:$?\n");
        screen.wait_for("code:130");
        screen.keys("sleep 102\n");
        screen.key("C-\\");
        screen.wait_for("Quit");
        screen.keys("echo left:$(jobs | wc -l) && exit 5\n");
        screen.wait_for("EXIT:5");
        assert!(screen.text().contains("left:0"), "{backend}: {}", screen.text());
        screen.is_as_before();
    }
}

#[test]
fn keys_reach_the_command_as_a_terminal_gives_them() {
    for backend in backends() {
        let place = Place::new();
        // A line is edited and echoed by the terminal itself, and its end is Ctrl-D.
        let Some(screen) =
            Screen::start(&place, &format!("sandbox --backend {backend} -- sed s/^/got:/"), SIZE)
        else {
            return;
        };
        screen.keys("onx");
        screen.key("BSpace");
        screen.keys("e\n");
        screen.wait_for("got:one");
        screen.key("C-d");
        screen.wait_for("EXIT:0");
        let text = screen.text();
        assert_eq!(text.matches("one").count(), 2, "{backend}: once as echo, once as output: {text}");
        screen.is_as_before();
    }
}

/// Landlock without namespaces shows no terminal by name.
#[test]
fn in_a_pipe_the_terminal_is_only_written_to() {
    for backend in backends() {
        let place = Place::new();
        let command = "stty -echo <&2; echo ready >&2; timeout 2 head -n 1 <&2; echo read:$?; test -t 2 && stty size <&2";
        let arguments = format!("sandbox --backend {backend} -- sh -c '{command}' < /dev/null");
        let Some(screen) = Screen::start(&place, &arguments, SIZE) else { return };
        screen.wait_for("ready");
        screen.keys("typed\n");
        screen.wait_for("EXIT:0");
        let text = screen.text();
        // Once as echo of the real terminal, whose modes nobody has changed.
        assert_eq!(text.matches("typed").count(), 1, "{backend}: {text}");
        assert!(text.contains("read:124") && text.contains("24 80"), "{backend}: {text}");
        screen.is_as_before();
    }
}

#[test]
fn a_terminal_can_be_opened_by_its_names() {
    for backend in backends().iter().filter(|backend| **backend != "landlock") {
        let place = Place::new();
        let script = "for name in stdout stderr tty; do echo on:$name > /dev/$name; done";
        let arguments = format!("sandbox --backend {backend} -- sh -c '{script}'");
        let Some(screen) = Screen::start(&place, &arguments, SIZE) else { return };
        screen.wait_for("EXIT:");
        let text = screen.text();
        assert!(text.contains("on:stdout\non:stderr\non:tty\nEXIT:0"), "{backend}: {text}");
    }
}

#[test]
fn an_interrupt_is_the_commands_own() {
    for backend in backends() {
        let place = Place::new();
        let arguments = format!("sandbox --backend {backend} -- sh -c 'echo ready; exec sleep 103'");
        let Some(screen) = Screen::start(&place, &arguments, SIZE) else { return };
        screen.wait_for("ready");
        screen.key("C-c");
        screen.wait_for("EXIT:130");
        screen.is_as_before();
        if *backend == "bwrap" {
            // bwrap itself dies of the interrupt that its command would have caught.
            continue;
        }
        let script = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.1; done";
        let arguments = format!("sandbox --backend {backend} -- sh -c '{}'", script.replace('\'', r"'\''"));
        let Some(screen) = Screen::start(&place, &arguments, SIZE) else { return };
        screen.wait_for("ready");
        screen.key("C-c");
        screen.wait_for("EXIT:7");
        assert!(screen.text().contains("caught"), "{backend}: {}", screen.text());
    }
}

#[test]
fn the_size_follows_the_window() {
    for backend in backends() {
        let place = Place::new();
        let script = "trap \"stty size\" WINCH; stty size; while :; do sleep 0.1; done";
        let arguments = format!("sandbox --backend {backend} --time 60 -- sh -c '{script}'");
        let Some(screen) = Screen::start(&place, &arguments, SIZE) else { return };
        screen.wait_for("24 80");
        screen.resize(101, 31);
        screen.wait_for("31 101");
    }
}

#[test]
fn the_terminal_is_as_before_however_it_ends() {
    for backend in backends() {
        let place = Place::new();
        let sandbox = format!("sandbox --backend {backend}");
        let wild = "sh -c \"stty raw -echo; echo ready; sleep 60\"";
        let Some(screen) = Screen::start(&place, &format!("{sandbox} --time 1 -- {wild}"), SIZE) else {
            return;
        };
        screen.wait_for("EXIT:124");
        screen.is_as_before();
        let Some(screen) = Screen::start(&place, &format!("{sandbox} -- {wild}"), SIZE) else { return };
        screen.wait_for("ready");
        screen.signal_program("TERM");
        screen.wait_for("EXIT:143");
        screen.is_as_before();
        let Some(screen) = Screen::start(&place, &format!("{sandbox} -- no-such-program"), SIZE) else {
            return;
        };
        screen.wait_for("EXIT:127");
        screen.is_as_before();
    }
}

#[test]
fn the_last_output_is_on_the_screen() {
    for backend in backends() {
        let place = Place::new();
        let arguments = format!("sandbox --backend {backend} -- seq 20000");
        let Some(screen) = Screen::start(&place, &arguments, SIZE) else { return };
        screen.wait_for("EXIT:0");
        assert!(screen.text().contains("19990\n19991\n"), "{backend}: {}", screen.text());
        assert!(screen.text().contains("20000\nEXIT:0"), "{backend}: {}", screen.text());
    }
}

#[test]
fn a_stopped_helve_gives_the_terminal_back_and_takes_it_again() {
    for backend in backends() {
        let place = Place::new();
        let arguments =
            format!("sandbox --backend {backend} -- sh -c 'echo ready; read -r word; echo got:$word'");
        let Some(screen) = Screen::start_with_jobs(&place, &arguments, SIZE) else { return };
        screen.wait_for("ready");
        screen.wait_until("raw mode", |_| screen.is_raw());
        screen.signal_program("TSTP");
        screen.wait_for("STOPPED:");
        screen.is_as_before();
        screen.keys("fg\n");
        screen.wait_until("raw mode", |_| screen.is_raw());
        screen.keys("word\n");
        screen.wait_for("EXIT:0");
        assert!(screen.text().contains("got:word"), "{backend}: {}", screen.text());
        screen.is_as_before();
    }
}

#[test]
fn in_the_background_it_runs_and_leaves_the_terminal_alone() {
    for backend in backends() {
        let place = Place::new();
        let arguments = format!("sandbox --backend {backend} -- sh -c 'sleep 0.5; echo from:$((40 + 2))'");
        let Some(screen) = Screen::start_in_background(&place, &arguments, SIZE) else { return };
        screen.wait_for("from:42");
        screen.is_as_before();
        screen.wait_for("EXIT:0");
        screen.is_as_before();
    }
}

#[test]
fn with_one_end_in_a_pipe_the_keys_stay_with_the_other_program() {
    for backend in backends() {
        let place = Place::new();
        let arguments = format!("sandbox --backend {backend} -- echo hello | cat");
        let Some(screen) = Screen::start(&place, &arguments, SIZE) else { return };
        screen.wait_for("EXIT:0");
        assert!(screen.text().contains("hello"), "{backend}: {}", screen.text());
        screen.is_as_before();
    }
}
