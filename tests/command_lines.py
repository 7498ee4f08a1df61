"""Whether the workbench would take a command line, without running it."""

from workbench.cli.app import app
from workbench.cli.report import join_parameters


def check_command(words):
    """Fail unless the words after `workbench` name a command, and options and arguments that it has."""
    from typer.main import get_command

    arguments, command = join_parameters(list(words)), get_command(app)
    while hasattr(command, "commands"):
        if arguments and arguments[0] == "--help":
            return
        assert arguments, f"no command in {words}"
        assert arguments[0] in command.commands, f"{arguments[0]!r} of {words} is no command"
        command = command.commands[arguments.pop(0)]
    context = command.make_context(command.name, arguments)
    assert not context.args, f"{words}: {context.args} was not understood"
