"""Plans, risks and reproductions: answers of the program that the wheel holds.

Each argument is the option of that name (``mean_iops=800`` is ``--mean-iops 800``), so the reference of the command line
(docs/reference.md) is that of these functions. What is refused is refused by the names of the arguments.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from ._raidlab import RaidlabError
from .arguments import executor as checked_executor
from .arguments import SHOWN_CHARS, either, flag, for_system, in_python, of_type, ordered, refused, selector, shown, told
from .arrays import Catalog
from .bars import TOLD, ShareBar
from .rounds import Leader
from .runs import framed, written


class Answer(dict[str, Any]):
    """What the program answered, as ``--json`` has it. A notebook shows its report, where it has one."""

    page: Optional[str] = None
    """The report as a page that loads nothing."""

    def save_html(self, path: Union[str, Path], *, overwrite: bool = False) -> None:
        """Writes the report to a file. One that is there is refused, unless ``overwrite`` says otherwise."""
        if self.page is None:
            raise RaidlabError("this answer has no report")
        written(self.page, path, overwrite)

    def _repr_html_(self) -> Optional[str]:
        return None if self.page is None else framed(self.page)


def plan(*, executor: Optional[Executor] = None, progress: bool = True, **options: Any) -> Answer:
    """Which arrays serve applications best: ``plan(app="storagebench-database", usable="20TB", iops=20000, bound="p99<=2ms")``.

    Options are those of ``raidlab plan``; one that may be repeated takes a list. The answer has the best arrays under ``top``, best
    first; there is none where no array keeps the needs, and the answer says what would have to give. With ``arrays=2`` the cheapest
    placement is under ``best``.

    With ``executor``, any of ``concurrent.futures``, its simulations run on the executor's workers, which need the wheel and the files
    that options name. The answer is the same, but for the seconds that it took; so is it when workers die.
    """
    # The program has no page for several arrays.
    return _asked("plan", [], options, has_page="arrays" not in options, executor=executor, progress=progress)


def risk(level: str, members: int, **options: Any) -> Answer:
    """How likely an array loses data: ``risk("6", 12, drive="exos-x24-24tb", spares=1)``. Options are those of ``raidlab risk``."""
    return _asked("risk", [], {"level": level, "members": members, **options}, has_page=False)


def reproduce(paper: str = "list", **options: Any) -> Answer:
    """Predicts the figures of a published evaluation and compares: ``reproduce("md1200-2011", table="12")``; without one, which there are.

    Options are those of ``raidlab reproduce``.
    """
    if paper == "list" and options:
        _check_names("reproduce", options, _options_of(program(), "reproduce"))
        raise refused("paper", paper, f"it is the list of all, which takes no {', '.join(options)}: name one of raidlab.reproduce()")
    return _asked("reproduce", [_paper(paper)], options, has_page=paper != "list")


def compare(*runs: Union[int, str], **options: Any) -> Answer:
    """Runs of a results file side by side, the others with the first: ``compare(3, "5..9", db="runs.sqlite")``. With a kept plan first,
    ``compare("plan:2", "5..9")``, which of its assumptions measured runs show to be wrong.

    Options are those of ``raidlab compare``; ``plan(..., db="runs.sqlite")`` keeps a plan.
    """
    if len(runs) < 2:
        raise refused("runs", runs, "name at least two runs or groups of them, such as 3, '5..9', 'tag:mine' or 'plan:2'")
    return _asked("compare", [selector("runs", it) for it in runs], options, has_page=False)


def fit(paper: Optional[str] = None, **options: Any) -> Answer:
    """Fits figures of the catalogue to runs of your own: ``fit(to=["5..9"], only=["st3600057ss:mechanics.rpm"], array="mine.toml",
    db="runs.sqlite")``; or, with a ``paper``, to its published figures.

    Options are those of ``raidlab fit``; ``out="mine.toml"`` writes the new entry.
    """
    if paper is None and options.get("to") is None:
        raise RaidlabError("fit() needs a paper, such as fit('md1200-2011'), or to= with runs of your own")
    return _asked("fit", [] if paper is None else [_paper(paper)], options, has_page=False)


def _paper(paper: Any) -> str:
    """The name of a paper: no option."""
    if not isinstance(paper, str) or paper.startswith("-"):
        raise refused("paper", paper, "it is the name of a paper: raidlab.reproduce() has those there are")
    return for_system("paper", paper)


def program() -> str:
    """The program's path: ``RAIDLAB`` of the environment, else beside this Python, else on the path."""
    beside = Path(sys.executable).with_name("raidlab")
    found = os.environ.get("RAIDLAB") or (str(beside) if beside.is_file() else shutil.which("raidlab"))
    if not found:
        raise RuntimeError("the program 'raidlab' is neither beside this Python nor on the path; name it in RAIDLAB")
    return found


NOT_ASKED = {
    "help": "docs/reference.md lists the options, and help(raidlab.{0}) says how they are written",
    "json": "an answer is a dictionary of all figures, without being asked",
    "report": "the answer has its report: {0}(...).save_html(path)",
    "verbose": "what the program logs is not shown here; 'raidlab {0} --verbose' shows it",
    "version": "raidlab.__version__ has it",
}
"""Options of the program that are no arguments here, and what to do instead."""


def _of_catalog(catalog: Catalog, folder: Path, executor: Optional[Executor]) -> list[str]:
    """The options that are as much as a catalogue of Python."""
    texts, changes, drives = catalog.__getstate__()
    if drives:
        raise refused("catalog", catalog, f"the program can't call the drives that you wrote in Python: {', '.join(drives)}")
    if texts and executor is not None:
        raise refused("catalog", catalog, "workers read files: name them, catalog=['mine.toml']")
    words = []
    for number, (name, text) in enumerate(texts):
        file = folder / f"{number:03}-{Path(name).name}"
        file.write_text(text, encoding="utf-8")
        words.append(f"--catalog={file}")
    return [*words, *(f"--set={entry}:{key}={value}" for entry, key, value in changes)]


_OPTION = re.compile(r" {2,6}(?:-\w, )?--([a-z][a-z0-9-]*)(?: <([^>]*)>)?")
_ALIASES = re.compile(r" +\[alias(?:es)?: (.*)\]")


@lru_cache(maxsize=None)
def _options_of(program: str, verb: str) -> dict[str, Optional[str]]:
    """The arguments that are options of a verb, each with what it takes as its help has it; None for a switch, which takes nothing."""
    told = subprocess.run([program, verb, "--help"], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=True).stdout
    options: dict[str, Optional[str]] = {}
    last: Optional[str] = None
    for line in told.splitlines():
        if found := _OPTION.match(line):
            last = found[2]
            options[_argument(found[1])] = last
        elif found := _ALIASES.fullmatch(line):
            options.update((_argument(name), last) for name in re.findall(r"--([a-z][a-z0-9-]*)", found[1]))
    return options


def _argument(option: str) -> str:
    return option.replace("-", "_")


def _check_names(verb: str, names: Iterable[str], known: Mapping[str, object]) -> None:
    """Refuses names that are no options of the verb, whatever their values."""
    unknown = []
    for name in names:
        if name in NOT_ASKED:
            raise RaidlabError(f"{verb}() has no argument {name}: {NOT_ASKED[name].format(verb)}")
        if name not in known:
            near = get_close_matches(name, known, 1, cutoff=0.7)
            unknown.append(name + (f" (did you mean {near[0]}?)" if near else ""))
    if unknown:
        has = ", ".join(sorted(known.keys() - NOT_ASKED))
        raise RaidlabError(f"{verb}() has no argument {', '.join(unknown)}: it has {has}; docs/reference.md says what they are")


def _arguments(verb: str, options: dict[str, Any], folder: Path, executor: Optional[Executor]) -> list[str]:
    known = _options_of(program(), verb)
    _check_names(verb, options, known)
    words: list[str] = []
    for name, value in options.items():
        if isinstance(value, Catalog):
            words += _of_catalog(of_type(name, value, Catalog if name == "catalog" else (), "only catalog= takes one"), folder, executor)
            continue
        if value is None:
            continue
        option = "--" + name.replace("_", "-")
        takes = known[name]
        if takes is None:
            words += [option] if flag(name, value) else []
        else:
            words += (f"{option}={_word(name, one, takes)}" for one in _several(name, value, takes))
    return words


def _several(name: str, value: Any, takes: str) -> list[Any]:
    """The values of an option, which is repeated for each."""
    if isinstance(value, (str, bytes, os.PathLike)) or not isinstance(value, Iterable):
        return [value]
    ordered(name, value, f"it is text or a number ({takes}), or a list of these")
    values = list(value)
    if not values:
        raise refused(name, value, f"it is empty: name at least one ({takes}), or leave the argument out")
    return values


WORD_BYTES = 100_000
"""The longest value of an option; Linux takes 128 KiB with the option's name."""


def _word(name: str, value: Any, takes: str) -> str:
    """A value as the program takes it."""
    if isinstance(value, (str, os.PathLike)):
        text = for_system(name, str(os.fspath(value)))
        if text.isspace():
            raise refused(name, text, "it is nothing but blanks")
        if len(os.fsencode(text)) > WORD_BYTES:
            raise refused(name, text, f"an argument of the program has {WORD_BYTES} bytes at most")
        return text
    found = either(value)
    if found is None:
        raise refused(name, value, f"it is text or a number ({takes}), or a list of these")
    return str(found)


BOUND_MISSED = 3
"""The program's code where all was done and a bound was missed: an answer, too."""


def _asked(
    verb: str,
    words: list[str],
    options: dict[str, Any],
    *,
    has_page: bool,
    executor: Optional[Executor] = None,
    progress: bool = False,
) -> Answer:
    checked_executor(executor)
    flag("progress", progress)
    with tempfile.TemporaryDirectory(prefix="raidlab-") as folder:
        report = Path(folder) / "report.html"
        page = [f"--report={report}"] if has_page else []
        asked = [verb, *words, *_arguments(verb, options, Path(folder), executor)]
        command = [program(), *asked, *page, "--json"]
        # A worker does one job at a time: it may be one of many on its machine.
        leader = None if executor is None else Leader([*_without_keeping(asked), "--threads=1", "--json"], executor)
        with ShareBar(verb, progress) as bar:
            done = _ended(command, Path(folder), leader, bar)
        if done.code not in (0, BOUND_MISSED):
            positional = {name: words[0] if len(words) == 1 else words for name in _POSITIONAL.get(verb, {}).values() if words}
            raise RaidlabError(_told(done.err, verb, {**positional, **options}))
        answer = Answer(json.loads(done.out))
        if report.is_file():
            answer.page = report.read_text(encoding="utf-8")
        return answer


KEEPS = ("--report", "--study", "--db", "--tag", "--threads")
"""Options that say where the answer goes, or how fast this machine is to be: no worker's business."""


def _without_keeping(words: list[str]) -> list[str]:
    return [word for word in words if word.partition("=")[0] not in KEEPS]


class _Ended(NamedTuple):
    code: int
    out: str
    err: str


def _ended(command: list[str], folder: Path, leader: Optional[Leader], bar: ShareBar) -> _Ended:
    """Runs the program to its end; a signal ends it at once."""
    out, err = folder / "out", folder / "err"
    if leader is not None:
        ended = leader.run(command, out, err, bar)
        return _Ended(ended, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))
    with out.open("wb") as to_out, err.open("wb") as to_err:
        environment = {**os.environ, **TOLD}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=to_out, stderr=to_err, env=environment)
        try:
            while (code := process.poll()) is None:
                time.sleep(0.02)
                bar.look(err)
        except BaseException:
            process.kill()
            raise
    return _Ended(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


_POSITIONAL = {"reproduce": {"list|ID": "paper"}, "fit": {"ID": "paper"}, "compare": {"RUNS": "runs"}}
"""What the program takes without an option, by its name there, and the argument here."""


def _told(text: str, verb: str, given: dict[str, Any]) -> str:
    """What the program told, in sentences that name arguments of Python."""
    lines = [line for line in text.splitlines() if not line.startswith('{"progress"')]
    text = "\n".join(lines)
    try:
        said = json.loads(text[text.find("{") :])["failure"]
        parts = [(it["kind"], it["text"]) for it in said]
    except (ValueError, KeyError, TypeError):
        parts = [("error", text.strip())]
    told = _Told(verb, given)
    first, *others = [told.sentence(it) for kind, it in parts if kind != "option"]
    for name in reversed(told.at_fault([told.named(it) for kind, it in parts if kind == "option"], first)):
        if name in given and not first.startswith(f"{name}="):
            first = f"{told.argument(name)}: {first}"
        elif name not in first:
            first = f"{name}: {first}"
    return told.shortened("; ".join([first, *others]))


def _is_file_in(sentence: str, word: str) -> bool:
    """Whether a sentence begins with a word, or speaks of it as of a path."""
    before = r"(?:^|\s)" if re.search(r"[./]", word) else "^"
    return re.search(before + re.escape(word) + r"(?=[:;,\s]|$)", sentence) is not None


_OPTION_TOLD = re.compile(
    r"'raidlab [^']*'|'--(?P<quoted>[a-z][a-z0-9-]*)(?: <[^>]*>)?'|--(?P<alone>[a-z][a-z0-9-]*)(?:[ =](?:<[^>]*>|[A-Z]+(?:\.[a-z]+)?\b))?"
)
"""An option in what the program tells, with what it takes; or a command with options of its own."""


class _Told:
    """What the program tells of its options, told of the arguments ``given`` of ``verb``."""

    def __init__(self, verb: str, given: dict[str, Any]) -> None:
        self._verb, self._given = verb, given
        self._known = _options_of(program(), verb)
        self._words = [(name, told(str(one))) for name, value in given.items() for one in (value if isinstance(value, (list, tuple)) else [value])]

    def argument(self, name: str) -> str:
        return f"{name}={shown(self._given[name])}"

    def at_fault(self, options: list[str], sentence: str) -> list[str]:
        """The arguments that the program refuses. It goes by their values, and several may have the same, or a file is named by it."""
        if not options:
            named = {name for name, word in self._words if word and _is_file_in(sentence, word)}
            return [name for name in self._given if name in named]
        values = {word for name, word in self._words if name in options}
        same = dict.fromkeys([*options, *(name for name, word in self._words if word in values and f"'{word}'" in sentence)])
        meant = [name for name in same if name.rstrip("s").replace("_", " ") in sentence]
        return meant or options

    def named(self, text: str) -> str:
        """The arguments of Python in place of options and of what these take; commands of the program stay as they are."""
        for name, argument in _POSITIONAL.get(self._verb, {}).items():
            text = re.sub(rf"'?(?:<{re.escape(name)}> ?)+(?:\.\.\.)?'?(?:<{re.escape(name)}>\.\.\.)?", argument, text)

        def here(found: re.Match[str]) -> str:
            argument = _argument(found["quoted"] or found["alone"] or "")
            return argument if argument in self._known else found[0]

        return _OPTION_TOLD.sub(here, text).strip()

    def sentence(self, text: str) -> str:
        """One thing that the program told."""
        text = in_python(text)
        if text.startswith("the following required arguments were not provided"):
            names = [self.named(it) for it in text.splitlines()[1:]]
            given = ", ".join(self.argument(name) for name in self._given)
            return f"{self._verb}({given}) needs {' and '.join(f'{name}=' for name in names)}"
        if text == "--help lists what can be given":
            return f"docs/reference.md lists the options of {self._verb}"
        if text.startswith("invalid UTF-8 was detected"):
            unfit = [name for name, word in self._words if "\ufffd" in word]
            return "; ".join(f"{self.argument(name)}: it is text in UTF-8" for name in unfit)
        text, _, choice = text.partition("\n  [possible values: ")
        allowed = f"it is one of {choice[:-1]}" if choice else "it takes a value"
        if found := re.match(r"(?s)invalid value '(.*)' for '([^']*)'(?:: (.*))?", text):
            name = self.named(found[2])
            value = self._given[name] if str(self._given.get(name)) == found[1] else found[1]
            return f"{name}={shown(value)}: {self.named(found[3]) if found[3] else allowed}"
        if found := re.fullmatch(r"a value is required for '([^']*)' but none was supplied", text):
            return f"{self.argument(self.named(found[1]))}: {allowed}"
        if found := re.fullmatch(r"the argument '([^']*)' cannot be used multiple times", text):
            return f"{self.argument(self.named(found[1]))}: it takes one value, and no list"
        return self.named(text)

    def shortened(self, text: str) -> str:
        """The same with the beginnings of long values in place of these."""
        for _, word in self._words:
            if len(word) > SHOWN_CHARS:
                text = text.replace(word, word[:SHOWN_CHARS] + "...")
        return text
