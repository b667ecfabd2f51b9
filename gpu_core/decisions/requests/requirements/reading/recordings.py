"""The amount of audio or video in a text: hours, files of a length, frames of a video."""

import re

from gpu_core.decisions.requests.requirements.jobs.number_words import NUMBER, number_of
from gpu_core.decisions.requests.requirements.reading.nouns import RECORDINGS
from gpu_core.decisions.requests.requirements.reading.text_line import TextLine

_AUDIO_UNIT = r"(?P<unit>weeks?|days?|hours?|hrs?|h|minutes?|mins?|seconds?|secs?|s)"
_AUDIO = (
    r"(?P<number>\d[\d,]*(?:\.\d+)?)(?P<scale> ?k| thousand| million)? ?"
    rf"{_AUDIO_UNIT}(?: of)?(?: [a-z-]+){{0,2}}? (?:{RECORDINGS})"
)
_BARE_AUDIO = (
    r"(?<!for )(?<!in )(?<!within )(?<!under )"
    rf"(?P<number>\d[\d,]*(?:\.\d+)?)(?P<scale> ?k| thousand| million)? ?{_AUDIO_UNIT}"
)
# `20k calls of 6 minutes each`, `120k calls (avg 35 seconds)` and `500 1-hour meetings`.
_EACH = rf"(?P<each>\d+(?:\.\d+)?)[ -]?{_AUDIO_UNIT}"
_AUDIO_FILES = (
    rf"{NUMBER} (?:[a-z]+ )?(?:{RECORDINGS})(?: of| with| at|,)?(?: about| around)? "
    rf"{_EACH}(?: each| long| on average| per [a-z]+)",
    rf"{NUMBER} (?:[a-z]+ )?(?:{RECORDINGS})(?:,? of|,? with|,)? "
    rf"\(?(?:avg\.?|average|averaging|mean)(?: length)?(?: of)? {_EACH}",
    rf"{NUMBER} {_EACH}(?: long)? (?:[a-z]+ )?(?:{RECORDINGS})",
)
_FRAMES_PER_S = r" ?(?:fps|frames (?:per|a) second|frames/s)"
_VIDEO = (
    rf"(?P<number>\d[\d,]*(?:\.\d+)?) ?{_AUDIO_UNIT}(?: of)? (?:(?P<before>\d+){_FRAMES_PER_S} )?"
    rf"(?:[a-z]+ )?(?:video|footage)(?: (?:at|with) (?P<after>\d+){_FRAMES_PER_S})?"
)
_AUDIO_S = {"w": 7 * 86_400, "d": 86_400, "h": 3600, "m": 60, "s": 1}
_SCALES = {None: 1.0, "k": 1e3, "thousand": 1e3, "million": 1e6}


def take_recordings(line: TextLine, *, is_for_speech: bool) -> dict[str, float]:
    """How many seconds of audio, or frames of a video whose rate is said? Empty: nothing is said.

    What is read is taken from the line.

    Args:
        is_for_speech: The model works on speech: `3,500 hours` are of audio.
    """
    video = re.search(rf"(?<![\w.])(?:{_VIDEO})(?!\w)", line.text)
    frames_per_s = None if video is None else video["before"] or video["after"]
    if video is not None and frames_per_s is not None:
        line.text = f"{line.text[: video.start()]} ; {line.text[video.end() :]}"
        return {"images": _seconds(video, "number") * int(frames_per_s)}
    for pattern in _AUDIO_FILES:
        files = line.take(pattern)
        if files is not None:
            return {"seconds": number_of(files) * _seconds(files, "each")}
    match = line.take(_AUDIO) or (line.take(_BARE_AUDIO) if is_for_speech else None)
    if match is None:
        return {}
    scale = _SCALES[match["scale"].strip() if match["scale"] else None]
    return {"seconds": _seconds(match, "number") * scale}


def _seconds(match: re.Match[str], group: str) -> float:
    return float(match[group].replace(",", "")) * _AUDIO_S[match["unit"][0]]
