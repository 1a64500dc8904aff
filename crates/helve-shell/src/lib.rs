//! What a shell command says: a lexer for the shell's words, quoting, and command wrapper templates
