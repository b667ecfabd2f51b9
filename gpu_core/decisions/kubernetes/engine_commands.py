"""Which command lines start the engine of a flow, as far as their words show."""

import re
import shlex
from collections.abc import Sequence

# How Prefect 3.8 starts a flow: `prefect.workers.base`, `prefect.workers.process`.
_ENGINE_MODULE = re.compile(r"\bprefect[./](flow_)?engine\b")
_SUBCOMMANDS = (("flow-run", "execute"), ("flow-runs", "execute"), ("bundle", "execute"))

# The entry point of a bundle in `prefect` and in its packages for S3, GCS and Azure:
# `prefect.bundles.execute`, `prefect_aws.experimental.bundles.execute`.
_BUNDLE_MODULE = re.compile(r"\bbundles\.execute\b")

# What `prefect.bundles.convert_step_to_command` appends: `--key` and a random UUID.
_BUNDLE_KEY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_OPERATOR = re.compile(r"[();<>|&]+")


def starts_engine(command: Sequence[str], *, has_deployment: bool) -> bool:
    """Does this command start the engine of a flow, as far as its text shows?

    Args:
        command: Its words. A script that starts the engine shows it where it gets the engine's
            command as arguments: `/opt/start.sh prefect flow-run execute`.
        has_deployment: Whether the run is of a deployment.
    """
    words = _words(command)
    return (
        any(_ENGINE_MODULE.search(word) for word in words)
        or _calls_prefect(words, _SUBCOMMANDS)
        or is_bundle(command, has_deployment=has_deployment)
    )


def is_bundle(command: Sequence[str], *, has_deployment: bool) -> bool:
    """Does this command run a flow that was uploaded as a bundle, as `submit_to_work_pool` does?

    Args:
        command: Its words.
        has_deployment: Whether the run is of a deployment. A run that Prefect submits with a bundle
            has none, so that there `-m MODULE ... --key UUID` is the program of the run's author.
    """
    words = _words(command)
    if any(_BUNDLE_MODULE.search(word) for word in words):
        return True
    if _calls_prefect(words, (("bundle", "execute"),)):
        return True
    return not has_deployment and _is_own_step(words)


def _is_own_step(words: Sequence[str]) -> bool:
    """Is it of the form that Prefect gives to a step of the pool's own for bundles?"""
    if len(words) < 3 or "-m" not in words[:-2] or words[-2] != "--key":
        return False
    return _BUNDLE_KEY.fullmatch(words[-1]) is not None


def _calls_prefect(words: Sequence[str], subcommands: Sequence[tuple[str, str]]) -> bool:
    """Is `prefect` called with one of these, with or without options before and between?"""
    for number, word in enumerate(words):
        if word.rpartition("/")[2].removeprefix("-m") != "prefect":
            continue
        first = _after_options(words, number + 1, {group for group, _ in subcommands})
        if first is None:
            continue
        names = {name for group, name in subcommands if group == words[first]}
        if _after_options(words, first + 1, names) is not None:
            return True
    return False


def _after_options(words: Sequence[str], start: int, names: set[str]) -> int | None:
    """Where is one of these names, behind nothing but options with one value each at most?"""
    may_be_value = False
    for number, word in enumerate(words[start:], start):
        if word in names:
            return number
        if word.startswith("-"):
            may_be_value = "=" not in word
        elif may_be_value and not _OPERATOR.fullmatch(word):
            may_be_value = False
        else:
            return None
    return None


def _words(command: Sequence[str]) -> list[str]:
    """The words of the command, those of scripts of a shell inside it included."""
    found: list[str] = []
    for word in command:
        found.extend(_words_of_script(word) if any(c.isspace() for c in word) else [word])
    return found


def _words_of_script(script: str) -> list[str]:
    lexer = shlex.shlex(script, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # a quotation mark that is not closed
        return script.split()
