"""Whether the workbench would take a command line, without running it."""

from typer.main import get_command

from workbench.cli.app import app
from workbench.cli.report import join_parameters
from workbench.report import find_notebook


def check_command(words):
    """Fail unless the words after `workbench` name a command, and options and arguments that it has."""
    arguments, command = join_parameters(list(words)), get_command(app)
    while hasattr(command, "commands"):
        if command.invoke_without_command and (not arguments or arguments[0].startswith("-")):
            break
        if command.name == "report" and arguments[0] not in command.commands:
            if not arguments[0].endswith(".ipynb"):
                find_notebook(arguments[0])
            arguments.insert(0, "NAME")
        assert arguments[0] in command.commands, f"{arguments[0]!r} of {words} is no command"
        command = command.commands[arguments.pop(0)]
    context = command.make_context(command.name, arguments)
    assert not context.args, f"{words}: {context.args} was not understood"
