"""A command whose --help ends with examples."""

from typing import Any

import click


class WithExamples(click.Command):
    """A command with examples: for each, what it is for, and its command line."""

    def __init__(self, *args: Any, examples: tuple[tuple[str, str], ...], **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples; they are not wrapped, so that they can be copied."""
        super().format_epilog(ctx, formatter)
        with formatter.section("Examples"):
            indent = " " * formatter.current_indent
            formatter.write("\n".join(f"{indent}# {what}\n{indent}{line}\n" for what, line in self.examples))
