"""Shared by the commands: exit codes, safe printing of a line, options that name files, a cluster, an object in it."""

import functools
import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn

import click
from click.shell_completion import CompletionItem

from webhook.cli.main import COMMANDS, OFFLINE, is_terminal
from webhook.kube import kubeconfig as kubeconfigs
from webhook.kube.kubeconfig import Kubeconfig
from webhook.kube.paths import is_name
from webhook.objects.left_out import LeftOut
from webhook.objects.problem import listed, one_of
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import WORDS

PROBLEMS: Final = 1
UNUSABLE: Final = 2
COMMANDS_OF_RUNNER: Final = ("::", "##[")
LONGEST_LINE: Final = 4096  # characters of a message
MOST_KINDS: Final = 4  # in a message
MOST_LEFT_OUT: Final = 1_000  # objects that a command names
ERASE: Final = "\r\x1b[K"  # the line of a terminal
FILE: Final = click.Path(path_type=Path)
PLUGIN: Final = "kubectl retry-policy"
COMMAND: Final = re.compile(r"(kubectl\s+)?\bretry-policy ([a-z-]+)")  # maybe a command, in help texts and remedies

Command = Callable[..., Any]


class _Namespace(click.ParamType[str]):
    name = "namespace"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not is_name(value):
            self.fail(f"{value!r} is not the name of a namespace; list them: kubectl get namespaces", param, ctx)
        return value


NAMESPACE: Final = _Namespace()


def kubeconfig_option(command: Command) -> Command:
    """Add the options --kubeconfig and --context to a command, which gets both as the parameter `kubeconfig`."""

    @functools.wraps(command)
    def with_context(*, kubeconfig: str | None, context: str | None, **options: Any) -> Any:
        return command(kubeconfig=Kubeconfig(kubeconfig or "", context), **options)

    context = click.option(
        "--context",
        metavar="NAME",
        shell_complete=_contexts,
        help="Context of the kubeconfig. Default: the current one.",
    )
    files = click.option(
        "--kubeconfig",
        metavar="FILE",
        shell_complete=lambda *_: [CompletionItem("", "file")],
        help=f"Default: KUBECONFIG, else {kubeconfigs.DEFAULT}.",
    )
    return files(context(with_context))


def leaving_out(command: Command) -> Command:
    """Give a command the parameter `left_out`; when it has ended, exit 2 if it left out an object.

    Each line about an object is printed once, to stderr, at most MOST_LEFT_OUT of them.
    """

    @functools.wraps(command)
    def with_left_out(**options: Any) -> Any:
        told: dict[str, None] = {}

        def tell(line: str) -> None:
            if line not in told and len(told) < MOST_LEFT_OUT:
                told[line] = None
                if is_terminal(sys.stderr):  # a line of progress may be there
                    sys.stderr.write(ERASE)
                click.echo(printable(line), err=True)

        left_out = LeftOut(tell)
        try:
            done = command(left_out=left_out, **options)
        except SystemExit:
            if left_out.number:
                sys.exit(UNUSABLE)
            raise
        if left_out.number:
            sys.exit(UNUSABLE)
        return done

    return with_left_out


class WorkloadArgument(click.Argument):
    """NAMESPACE/[KIND/]NAME; in the plugin [KIND/]NAME. `kinds`: the kinds that it can be."""

    def __init__(self, declarations: list[str], kinds: Iterable[KindSpec], **attributes: Any) -> None:
        super().__init__(declarations, **attributes)
        self.kinds = list(kinds)

    def make_metavar(self, ctx: click.Context) -> str:
        """Return what the usage shows."""
        return "[KIND/]NAME" if _is_plugin(ctx) else "NAMESPACE/[KIND/]NAME"

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the kinds that a shell offers, as [NAMESPACE/]KIND/; no cluster is asked for names."""
        bare = _is_plugin(ctx) or ctx.params.get("namespace") is not None
        namespace, slash, _ = ("", "", "") if bare else incomplete.partition("/")
        if not bare and not slash:
            return []
        return _beginning_with(incomplete, (f"{namespace}{slash}{WORDS[kind]}/" for kind in self.kinds))


def workload_argument(name: str, kinds: Iterable[KindSpec], *, required: bool = True) -> Callable[[Command], Command]:
    """Add the argument `name`, a workload, to a command, and the option -n; the command gets NAMESPACE/[KIND/]NAME."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_namespace(*, namespace: str | None, **options: Any) -> Any:
            if options[name] is not None:
                context = Kubeconfig(options["kubeconfig"] or "", options["context"])
                options[name] = in_namespace(options[name], namespace, context)
            return command(**options)

        argument = click.argument(name, cls=WorkloadArgument, kinds=kinds, required=required)
        option = click.option(
            "-n",
            "--namespace",
            type=NAMESPACE,
            help="Namespace of the workload, which is then named as [KIND/]NAME.",
        )
        return argument(option(with_namespace))

    return decorate


def in_namespace(text: str, namespace: str | None, kubeconfig: Kubeconfig) -> str:
    """Return NAMESPACE/[KIND/]NAME for what a user named, with -n or without; raise click.UsageError.

    Without -n, the plugin takes the namespace of the context, as kubectl does.
    """
    names_its_own = text.count("/") > 1
    if namespace is None:
        if names_its_own or not _is_plugin(click.get_current_context()):
            return text
        return f"{namespace_of(kubeconfig)}/{text}"
    if not names_its_own:
        return f"{namespace}/{text}"
    if not text.startswith(f"{namespace}/"):
        raise click.UsageError(f"{text!r} and -n {namespace} name two namespaces; leave one out")
    return text


def namespace_of(kubeconfig: Kubeconfig) -> str:
    """Return the namespace of a context; raise click.UsageError if the kubeconfig cannot be read."""
    try:
        return kubeconfigs.contexts(kubeconfig.paths).namespace(kubeconfig.context)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"the namespace of the context is unknown: {error}; name it with -n") from None


def _is_plugin(ctx: click.Context | None) -> bool:
    """Return True if a command runs as a part of `kubectl retry-policy`."""
    return ctx is not None and ctx.find_root().info_name == PLUGIN


def _contexts(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the contexts that a shell offers, of the kubeconfig that is named so far; none if it cannot be read."""
    try:
        found = kubeconfigs.contexts(Kubeconfig(ctx.params.get("kubeconfig") or "").paths)
    except (OSError, ValueError):
        return []
    return _beginning_with(incomplete, sorted(found.namespaces))


def _beginning_with(incomplete: str, texts: Iterable[str]) -> list[CompletionItem[str]]:
    return [CompletionItem(text) for text in texts if text.startswith(incomplete)]


namespace_option: Final = click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    help="Only this namespace.  [default: all that you may read]",
)


def as_called(text: str) -> str:
    """Return a text that names commands as the user calls them: in the plugin `kubectl retry-policy COMMAND`."""
    if not _is_plugin(click.get_current_context(silent=True)):
        return text
    own = COMMANDS.keys() - OFFLINE
    return COMMAND.sub(lambda one: one[0] if one[1] or one[2] not in own else f"{PLUGIN} {one[2]}", text)


def printable(line: str) -> str:
    """Return a line with unprintable characters escaped, and without its middle if it is too long.

    Keys of a document can be any text: line ends and terminal control sequences among them. The name of a file can be a
    command of GitHub's runner, which obeys every line of a step's output that begins with `::` or `##[`.
    """
    line = as_called(line)
    if line.lstrip().startswith(COMMANDS_OF_RUNNER):
        line = f"./{line}"
    if len(line) > LONGEST_LINE:
        line = f"{line[: LONGEST_LINE // 2]} … {line[-LONGEST_LINE // 2 :]}"
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in line)


def fail(*lines: str) -> NoReturn:
    """Print why a command cannot do what is asked, and exit 2."""
    for line in lines:
        click.echo(printable(line), err=True)
    sys.exit(UNUSABLE)


def standard_input() -> BinaryIO:
    """Return stdin, which is empty if it is closed."""
    return io.BytesIO() if sys.stdin is None else sys.stdin.buffer


class ObjectArgument(NamedTuple):
    """An object as a user names it; `kind` is None if its kind was left out."""

    namespace: str
    kind: KindSpec | None
    name: str

    def __str__(self) -> str:
        return "/".join([self.namespace, *([WORDS[self.kind]] if self.kind is not None else []), self.name])


def object_argument(text: str, kinds: Iterable[KindSpec]) -> ObjectArgument:
    """Read NAMESPACE/KIND/NAME or NAMESPACE/NAME, the kind one of `kinds`; raise click.UsageError."""
    by_word: dict[str, KindSpec] = {}
    for one in kinds:
        for alias in (WORDS[one], one.resource, f"{one.resource}.{one.group}"):
            by_word.setdefault(alias, one)
    choice = listed([WORDS[one] for one in dict.fromkeys(by_word.values())])
    namespace, _, rest = text.partition("/")
    if not rest:
        remedy = f"write NAMESPACE/{text} or NAMESPACE/KIND/{text}, or use -n"
        raise click.UsageError(f"{text!r} names no namespace; {remedy}")
    kind, slash, name = rest.rpartition("/")
    if slash and kind.lower() not in by_word:
        remedy = f"write NAMESPACE/KIND/NAME, KIND one of {choice}; if {kind!r} is a namespace: -n {kind} {name}"
        raise click.UsageError(f"{kind!r} is no kind of this command; {remedy}")
    if not is_name(namespace) or not is_name(name):
        raise click.UsageError(f"{text!r} names no object; write NAMESPACE/KIND/NAME, such as ml/job/train")
    return ObjectArgument(namespace, by_word.get(kind.lower()), name)


def kinds_of(kinds: Sequence[KindSpec]) -> str:
    """Return kinds as a choice: `Job or CronJob`; `workload` if there are more than MOST_KINDS."""
    return one_of([kind.kind for kind in kinds]) if len(kinds) <= MOST_KINDS else "workload"
