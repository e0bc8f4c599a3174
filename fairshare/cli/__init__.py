"""The command line: parse, make one call, render. The only package that prints or exits.

- `main`: the entry point, the table of commands and what happens to errors
- `command`: how a command is declared, and the flags that all of them share
- `context`: the composition root; joins the edges (`aws`, `local`, `trainer`) with the core
- `output`, `render`, `documents`, `errors`, `exit_codes`: tables for people, JSON for programs
- one module per group of commands; `main.COMMANDS` says which is where. What several of them share:
  `submission` (`submit`, `resume`, `demo`), `measuring` and `subjects` (`metrics`, `efficiency`, `compare`, `cost`),
  `targets` (`wait`, `cancel`), `findings` (`policy lint`, `setup`), `priorities`, `outcomes`, `prices` and `quotas`
  (what is asked rarely, `kept` in files)
- ``*_view``: the screens of a command; ``*_flags``, ``*_options``, ``*_targets``: what its flags and arguments mean

A module here may import Typer, `fairshare.model` and its siblings when it is loaded; everything else is imported by the
function that needs it, so that ``--help`` and ``--version`` stay fast.
"""
