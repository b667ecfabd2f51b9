"""How the quickstart stops."""

import signal

import pytest

from gpu_core.cli.quickstart.command import _STOP_SIGNALS, _interrupt


def test_a_second_signal_does_not_interrupt_the_stop():
    """`timeout` sends one to the whole group: a traceback was the last that users saw."""
    before = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
    try:
        for number in _STOP_SIGNALS:
            signal.signal(number, _interrupt)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        for number in _STOP_SIGNALS:
            signal.raise_signal(number)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
