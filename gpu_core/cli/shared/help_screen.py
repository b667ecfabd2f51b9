"""`--help` on any terminal: names of options and commands are never broken."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from cyclopts.help.specs import ColumnSpec
    from rich.console import Console, ConsoleOptions


class HelpScreen:
    """Cyclopts' help, whose column of names is as wide as the longest name needs.

    Cyclopts gives names 35% of the width at most, and Rich takes of that where descriptions are
    long: `--sequence-length` is broken at 40 columns, `--mlflow-token-file` even at 80.
    """

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        """Print a panel of options or commands."""
        from cyclopts.help import DefaultFormatter  # only help needs it
        from cyclopts.help.specs import get_default_command_columns, get_default_parameter_columns

        is_commands = panel.format == "command"
        default = get_default_command_columns if is_commands else get_default_parameter_columns

        def columns(
            console: "Console", options: "ConsoleOptions", entries: "list[HelpEntry]"
        ) -> "tuple[ColumnSpec, ...]":
            least = max((len(word) for entry in entries for word in _words(entry)), default=0)
            return tuple(_widened(column, least) for column in default(console, options, entries))

        DefaultFormatter(column_specs=columns)(console, options, panel)

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: Any) -> None:
        """Print how the command is called."""
        from cyclopts.help import DefaultFormatter

        DefaultFormatter().render_usage(console, options, usage)

    def render_description(
        self, console: "Console", options: "ConsoleOptions", description: Any
    ) -> None:
        """Print what the command does."""
        from cyclopts.help import DefaultFormatter

        DefaultFormatter().render_description(console, options, description)


def _words(entry: "HelpEntry") -> list[str]:
    return [*entry.all_options, *" ".join(entry.display_labels_with_metavar).split()]


def _widened(column: "ColumnSpec", least: int) -> "ColumnSpec":
    from attrs import evolve
    from cyclopts.help.specs import CommandNameRenderer, NameRenderer

    if not isinstance(column.renderer, NameRenderer | CommandNameRenderer):
        return column
    width = max(column.max_width or 0, least)
    renderer = type(column.renderer)(max_width=width)
    # Rich would take room from both columns: words wrap where descriptions do, names do not.
    return evolve(column, renderer=renderer, max_width=width, no_wrap=True)
