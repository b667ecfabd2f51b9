"""Command lines that start the engine of a flow, as far as their words show."""

import re
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

# A word of a shell's script: `shlex` takes seconds for a script of a megabyte.
_SCRIPT_WORD = re.compile(r"""[();<>|&]+|(?:'[^']*'|"[^"]*"|[^\s'"();<>|&]|['"])+""")
_SPACE = re.compile(r"\s")
_QUOTES = re.compile(r"""['"\\]""")

# Linux executes no command with a longer word (MAX_ARG_STRLEN in binfmts.h, with pages of 4 KiB).
_LONGEST_WORD = 131_072

# No longer command has an engine at its end, and each cycle reads them.
_MOST_WORDS = 10_000

# Words between `prefect` and its subcommand: five options with their values, and some more.
_MOST_OPTION_WORDS = 12


def starts_engine(command: Sequence[str], *, has_deployment: bool) -> bool:
    """Does this command start the engine of a flow, as far as its text shows?

    Args:
        command: Its words. A script that starts the engine shows it where it gets the engine's
            command as arguments: `/opt/start.sh prefect flow-run execute`.
    """
    words = _words(command)
    return (
        any(_ENGINE_MODULE.search(word) for word in words)
        or _calls_prefect(words, _SUBCOMMANDS)
        or _is_bundle(words, has_deployment=has_deployment)
    )


def is_bundle(command: Sequence[str], *, has_deployment: bool) -> bool:
    """Does this command run a flow that was uploaded as a bundle, as `submit_to_work_pool` does?

    Args:
        has_deployment: Whether the run is of a deployment. A run that Prefect submits with a bundle
            has none, so that there `-m MODULE ... --key UUID` is the program of the run's author.
    """
    return _is_bundle(_words(command), has_deployment=has_deployment)


def _is_bundle(words: Sequence[str], *, has_deployment: bool) -> bool:
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
    """The place of one of these names, behind nothing but options with one value each at most."""
    may_be_value = False
    for number, word in enumerate(words[start : start + _MOST_OPTION_WORDS], start):
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
    for word in command[:_MOST_WORDS]:
        found.extend(_words_of_script(word) if _SPACE.search(word) else [word])
        if len(found) > _MOST_WORDS:
            break
    return found


def _words_of_script(script: str) -> list[str]:
    return [_QUOTES.sub("", word) for word in _SCRIPT_WORD.findall(script[:_LONGEST_WORD])]
